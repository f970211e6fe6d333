"""What every record promises: one spelling, one digest, and it comes back as it was."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from upright.base.errors import RecordError
from upright.facts import records
from upright.facts.records.base import Figure, Record, canonical, from_dict, from_json, json_safe, unknown
from upright.facts.records.deployment import Deployment
from upright.facts.records.evidence import Evidence, Observation
from upright.facts.records.loading import KINDS, record_class

FIXTURES = Path(__file__).parent / "fixtures"
_texts = st.text(st.characters(codec="utf-8"), max_size=30)
_names = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), max_size=30)
_numbers = st.one_of(st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False))
_json = st.recursive(
    st.one_of(st.none(), st.booleans(), _numbers, _texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_texts, inner, max_size=4)),
    max_leaves=12,
)
_figures = st.one_of(
    st.builds(Figure, value=_numbers, basis=st.sampled_from(["read", "probed", "derived"]), source=st.none() | _texts),
    _texts.map(unknown),
)
_observations = st.builds(
    Observation,
    rung=_texts,
    check=_texts,
    verdict=st.sampled_from(["passed", "failed", "unsupported", "skipped"]),
    reason=_texts,
    at=_texts,
    seconds=st.floats(0, 1e6),
    request=st.dictionaries(_texts, _json, max_size=3),
    response=st.none() | st.dictionaries(_texts, _json, max_size=3),
)
_evidence = st.builds(
    Evidence,
    made_from=st.lists(_texts, max_size=2).map(tuple),
    deployment=_names,
    engine=_names,
    engine_version=st.none() | _names,
    to_rung=_texts,
    observations=st.lists(_observations, max_size=3).map(tuple),
)


class Sample(Record):
    kind = "sample"
    figure: Figure
    words: tuple[str, ...] = ()
    free: dict[str, Any] = {}  # noqa: RUF012 - pydantic copies it


_samples = st.builds(
    Sample,
    figure=_figures,
    words=st.lists(_texts, max_size=3).map(tuple),
    free=st.dictionaries(_texts, _json, max_size=3),
)


@given(_samples)
def test_a_record_comes_back_as_it_was(record: Sample) -> None:
    again = from_json(Sample, record.to_json())
    assert again == record
    assert again.digest == record.digest
    assert again.to_json() == record.to_json()


@given(_evidence)
def test_evidence_comes_back_from_json_and_from_yaml(record: Evidence) -> None:
    assert records.load(record.to_json()) == record
    assert records.load(record.to_yaml()) == record


@given(_json)
def test_the_canonical_spelling_is_stable(value: Any) -> None:
    once = canonical(value)
    assert canonical(json.loads(once)) == once
    assert canonical(_reversed(value)) == once


@given(st.integers(-(2**70), 2**70).filter(lambda number: float(number) == number))
def test_a_whole_number_has_one_digest_however_it_is_written(number: int) -> None:
    one, other = (Sample(figure=Figure(value=value, basis="read")) for value in (number, float(number)))
    assert one == other
    assert one.digest == other.digest


@given(_samples, st.data())
def test_the_digest_changes_when_any_field_does(record: Sample, data: st.DataObject) -> None:
    changes = {
        "figure": _figures,
        "words": st.lists(_texts, max_size=3).map(tuple),
        "made_from": st.lists(_texts, max_size=3).map(tuple),
    }
    name = data.draw(st.sampled_from(sorted(changes)))
    value = data.draw(changes[name])
    changed = record.model_copy(update={name: value})
    assert (changed.digest != record.digest) == (value != getattr(record, name))


@given(_samples, st.data())
def test_a_file_changed_anywhere_is_refused(record: Sample, data: st.DataObject) -> None:
    content = record.to_dict()
    name = data.draw(st.sampled_from(["figure", "words", "free", "made_from"]))
    value = data.draw(_json)
    if canonical(content[name]) == canonical(value):
        return
    with pytest.raises(RecordError, match="was changed after it was written"):
        from_dict(Sample, {**content, name: value})


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_figure_is_a_finite_number(value: float) -> None:
    with pytest.raises(ValidationError, match="finite number"):
        Figure(value=value, basis="measured")
    text = json.dumps({"record": "sample", "schema": 1, "figure": {"value": value, "basis": "read"}})
    with pytest.raises(RecordError, match="finite number"):
        from_json(Sample, text)


@given(_figures)
def test_a_figure_has_a_basis_exactly_when_it_has_a_value(figure: Figure) -> None:
    assert (figure.value is None) == (figure.basis is None)
    with pytest.raises(ValidationError, match="basis exactly when"):
        Figure(value=figure.value, basis=None if figure.basis else "assumed")


def test_a_record_cannot_be_changed() -> None:
    figure = unknown("nobody looked")
    with pytest.raises(ValidationError, match="frozen"):
        figure.value = 3  # type: ignore[misc]
    with pytest.raises(ValidationError, match="Extra inputs"):
        Figure(value=1, basis="read", unit="bytes")  # type: ignore[call-arg]


def test_what_a_broken_engine_sends_can_be_written_down() -> None:
    """NaN logprobs and half a surrogate pair are findings; they must not break the book they are noted in."""
    response = json.loads('{"logprobs": [NaN, -Infinity, 1.5], "text": "a\\ud83d", "\\udc00": {"deep": [Infinity]}}')
    seen = Observation(
        rung="smoke",
        check="x",
        verdict="failed",
        reason="it said a\ud83d",
        at="",
        seconds=0,
        request={},
        response=response,
    )
    assert seen.response == {
        "logprobs": ["NaN", "-Infinity", 1.5],
        "text": "a\\ud83d",
        "\\udc00": {"deep": ["Infinity"]},
    }
    assert seen.reason == "it said a\\ud83d"
    assert Observation.model_validate_json(seen.model_dump_json()) == seen


@given(_json)
def test_what_can_be_said_is_not_touched(value: Any) -> None:
    assert canonical(json_safe(value)) == canonical(value)


def test_every_kind_of_record_is_in_the_table() -> None:
    import pkgutil
    from importlib import import_module

    import upright.facts.records as room

    for module in pkgutil.iter_modules(room.__path__):
        import_module(f"upright.facts.records.{module.name}")
    ours = {kind for kind in Record.__subclasses__() if kind.__module__.startswith("upright.")}
    table = {kind.kind: f"{kind.__module__}:{kind.__name__}" for kind in ours}
    assert table == KINDS, "a new kind of record needs its line in upright.facts.records.loading.KINDS"


@pytest.mark.parametrize("kind", KINDS)
def test_every_older_schema_has_its_upgrade(kind: str) -> None:
    found = record_class(kind)
    assert sorted(found.upgrades) == list(range(1, found.schema_version))
    for schema in found.upgrades:
        load = records.load(FIXTURES / f"{kind}-{schema}.json")
        assert type(load) is found


def test_a_deployment_of_schema_1_is_upgraded_on_reading() -> None:
    file = FIXTURES / "deployment-1.json"
    written = json.loads(file.read_text())
    assert written["schema"] == 1
    deployment = records.load(file)
    assert isinstance(deployment, Deployment)
    assert deployment.schema_version == 3
    assert [(step.state, step.at, step.reason) for step in deployment.history] == [
        ("failed", "2026-11-15T00:58:44.031+00:00", "llama.cpp was killed by SIGKILL")
    ]
    assert deployment.process is not None
    assert (deployment.process.pid, deployment.process.boot_id) == (4712, None)
    kept = {name: value for name, value in written.items() if name not in {"schema", "digest", "supervisor", "process"}}
    assert kept.items() <= deployment.to_dict().items()


def test_evidence_of_schema_1_is_upgraded_on_reading() -> None:
    """It did not name its questions, nor its prompts: they stay unknown, and so nothing of it is taken for seen."""
    evidence = records.load(FIXTURES / "evidence-1.json")
    assert isinstance(evidence, Evidence)
    assert (evidence.schema_version, evidence.prompts, evidence.passed) == (3, None, True)
    assert [(seen.probe, seen.subject, seen.measured) for seen in evidence.observations] == [(None, None, {})]


def test_evidence_of_schema_2_stays_as_it_was_judged() -> None:
    """It knew no weak models: nobody can say afterwards whose fault a wrong answer was."""
    evidence = records.load(FIXTURES / "evidence-2.json")
    assert isinstance(evidence, Evidence)
    assert (evidence.headline, evidence.able, evidence.reached) == ("does not stand", True, None)
    assert [seen.verdict for seen in evidence.observations] == ["passed", "failed"]


def test_an_old_file_is_held_against_its_own_digest_before_it_is_upgraded() -> None:
    text = (FIXTURES / "deployment-1.json").read_text().replace('"exit_code": -9', '"exit_code": 0')
    with pytest.raises(RecordError, match="was changed after it was written") as caught:
        records.load(text)
    assert caught.value.hint == "if the change was meant, remove the digest"


def test_a_newer_schema_is_refused_with_a_hint() -> None:
    content = json.loads((FIXTURES / "deployment-1.json").read_text())
    del content["digest"]
    with pytest.raises(RecordError, match="deployment schema 99; this version reads 1 to 3") as caught:
        records.load(json.dumps({**content, "schema": 99}))
    assert caught.value.hint == "a newer upright wrote it: upgrade upright"


@pytest.mark.parametrize("schema", [None, 0, -1, "1", True, 1.5])
def test_what_is_no_schema_is_refused(schema: object) -> None:
    with pytest.raises(RecordError, match="has no schema of a deployment"):
        from_dict(Deployment, {"record": "deployment", "schema": schema})


def test_an_old_file_that_is_not_whole_is_refused_by_name() -> None:
    with pytest.raises(RecordError, match="not a valid deployment of schema 1: KeyError: 'state'"):
        records.load('{"record": "deployment", "schema": 1}')


def test_the_history_keeps_every_state() -> None:
    deployment = records.load(FIXTURES / "deployment-1.json")
    assert isinstance(deployment, Deployment)
    again = deployment.changed("t1", state="starting", reason=None, exit_code=None)
    again = again.changed("t2", ready_seconds=1.5).changed("t3", state="ready")
    assert [(step.state, step.at) for step in again.history[1:]] == [("starting", "t1"), ("ready", "t3")]
    assert (again.state, again.changed_at, again.ready_seconds) == ("ready", "t3", 1.5)


def _reversed(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _reversed(value[name]) for name in reversed(value)}
    return [_reversed(item) for item in value] if isinstance(value, list) else value
