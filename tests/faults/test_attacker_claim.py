"""A shared claim: a bundle that `verify`, `replay` and `index fetch` read, with anything changed or made up.

Sixty and more ways to lie with a real bundle, each refused with its reason; twenty honest ones accepted.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.evidence.share.tampering import (
    RECORDED,
    Tree,
    cells,
    claim_again,
    copied,
    encoded,
    figures_again,
    recorded,
    scale,
    seal,
)
from upright.base.errors import RecordError
from upright.evidence.share.checks import Verification
from upright.evidence.share.statement import identity_of, read_statement
from upright.evidence.share.verifying import verify
from upright.facts.records.base import digest_of

NOT_PROMISED = ("that a claim was measured: samples that fit each other and physics may be made up; `replay` tells",)
pytestmark = pytest.mark.promise(
    "everything that a claim states is derived again from its samples: what does not fit is broken, and says why"
)
Change = Callable[[Tree], object]


def judged(content: bytes) -> Verification:
    return verify(read_statement(content, "it"), identity_of(content))


def codes(verification: Verification) -> set[str]:
    return {check.code for check in verification.broken}


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name[:2])
def test_an_honest_one_is_consistent(path: Path) -> None:
    verification = judged(recorded(path))
    assert verification.level == "consistent", verification.broken


def test_there_are_twenty_of_real_runs() -> None:
    assert len({recorded(path) for path in RECORDED}) == 20


def records(bundle: Tree, kind: str) -> Any:
    return bundle["predicate"]["records"][kind]


def put(*path: str | int, to: object) -> Change:
    """A value at a path inside the predicate."""

    def change(bundle: Tree) -> None:
        place: Any = bundle["predicate"]
        for part in path[:-1]:
            place = place[part]
        assert place[path[-1]] != to
        place[path[-1]] = to

    return change


OTHER = "0" * 64
CARELESS: dict[str, Change] = {
    "a box with more memory": put("records", "box", "memory_bytes", "value", to=2**40),
    "a model with fewer layers": put("records", "model", "architecture", "layers", to=3),
    "another cache type": put("records", "plan", "kv", "dtype", to="q4_0"),
    "another flag": put("records", "recipe", "arguments", 5, "value", to="4096"),
    "other memory": put("records", "residuals", "lines", 0, "measured_bytes", "value", to=1),
    "a check that passed": put("records", "evidence", "observations", 0, "verdict", to="failed"),
    "a faster cell": put("benchmarks", 0, "cells", 0, "output_tokens_per_second", to=9999),
    "a sample": put("benchmarks", 0, "cells", 0, "samples", "first_us", 0, to=1),
    "another version": put("benchmarks", 0, "engine_version", to="b1"),
    "another digest": put("records", "plan", "digest", to=OTHER),
}


@pytest.mark.parametrize("change", CARELESS.values(), ids=CARELESS)
def test_what_was_changed_does_not_fit_its_digest(change: Change) -> None:
    bundle = copied()
    change(bundle)
    assert codes(judged(encoded(bundle))) == {"digest"}


def without_digest(bundle: Tree) -> None:
    del records(bundle, "plan")["digest"]


def another_kind(bundle: Tree) -> None:
    bundle["predicate"]["records"]["fleet"] = records(bundle, "plan")


def kind_of_another(bundle: Tree) -> None:
    bundle["predicate"]["records"]["plan"] = records(bundle, "box")


@pytest.mark.parametrize("change", [without_digest, another_kind, kind_of_another])
def test_only_sealed_records_that_a_bundle_has(change: Change) -> None:
    bundle = copied()
    change(bundle)
    assert codes(judged(encoded(bundle))) == {"digest"}


def reparented(*path: str | int) -> Change:
    def change(bundle: Tree) -> None:
        child: Any = bundle["predicate"]
        for part in path:
            child = child[part]
        child["made_from"] = [f"recipe:{OTHER}"]
        child["digest"] = digest_of(child)

    return change


def other_subject(bundle: Tree) -> None:
    bundle["subject"][0]["digest"]["sha256"] = OTHER


def two_subjects(bundle: Tree) -> None:
    bundle["subject"] *= 2


def recipe_of_another(bundle: Tree) -> None:
    bundle["predicate"]["records"]["recipe"] = records(copied(5), "recipe")


def cell_of_another(bundle: Tree) -> None:
    benchmark = bundle["predicate"]["benchmarks"][0]
    benchmark["cells"][0]["recipe"] = OTHER
    benchmark["digest"] = digest_of(benchmark)


def observation_of_another(bundle: Tree) -> None:
    evidence = records(bundle, "evidence")
    evidence["observations"][0]["subject"] = f"recipe:{OTHER}"
    evidence["digest"] = digest_of(evidence)


CHAINS: dict[str, Change] = {
    "another subject": other_subject,
    "two subjects": two_subjects,
    "another's recipe": recipe_of_another,
    "another's cell": cell_of_another,
    "another's observation": observation_of_another,
    "another's plan": reparented("records", "plan"),
    "another's residuals": reparented("records", "residuals"),
    "another's evidence": reparented("records", "evidence"),
    "another's benchmark": reparented("benchmarks", 0),
}


@pytest.mark.parametrize("change", CHAINS.values(), ids=CHAINS)
def test_what_belongs_to_another_breaks_the_chain(change: Change) -> None:
    bundle = copied()
    change(bundle)
    assert "chain" in codes(judged(encoded(bundle)))


SUMMARIES: dict[str, Change] = {
    "model": put("model", "name", to="kimi-k2.6"),
    "revision": put("model", "revision", to="a" * 40),
    "shard": put("model", "shards", 0, "size_bytes", to=10**12),
    "no shards": put("model", "shards", to=[]),
    "engine": put("engine", "version", to="b99999"),
    "commit": put("engine", "commit", to="abcdef0"),
    "image": put("engine", "image", to="vllm/vllm-openai@sha256:" + OTHER),
    "box": put("box", "kind", to="8x NVIDIA B200"),
    "gpus": put("box", "gpus", to=8),
    "GPU": put("box", "gpu", to="b200"),
    "repository": put("model", "repository", to="moonshotai/Kimi-K2.6"),
    "driver": put("box", "driver", to="580.95.05"),
    "cuda": put("box", "cuda", to="13.1"),
    "topology": put("box", "topology", to={"NV18": 28}),
}


@pytest.mark.parametrize("change", SUMMARIES.values(), ids=SUMMARIES)
def test_what_stands_above_is_what_the_records_say(change: Change) -> None:
    bundle = copied()
    change(bundle)
    assert codes(judged(encoded(bundle))) == {"summary"}


def one_more(bundle: Tree) -> None:
    headlines = bundle["predicate"]["headlines"]
    headlines.append({**headlines[0], "shape": "131,072 in, 1,024 out, 64 at once"})


HEADLINES: dict[str, tuple[Change, str]] = {
    "figure": (put("headlines", 0, "figure", to=1234.5), "headline"),
    "repeats": (put("headlines", 0, "repeats", to=30), "headline"),
    "unit": (put("headlines", 0, "unit", to="s"), "headline"),
    "none": (put("headlines", to=[]), "headline"),
    "one more": (one_more, "headline"),
    "a rung": (put("ladder", "boot", to="failed"), "ladder"),
    "another rung": (put("ladder", to={"boot": "passed", "context": "passed"}), "ladder"),
}


@pytest.mark.parametrize(("change", "code"), HEADLINES.values(), ids=HEADLINES)
def test_what_is_claimed_must_come_out_again(change: Change, code: str) -> None:
    bundle = copied()
    change(bundle)
    assert codes(judged(encoded(bundle))) == {code}


def halved_column(column: str) -> Change:
    def change(bundle: Tree) -> None:
        samples = cells(bundle)[0]["samples"]
        samples[column] = [time // 2 for time in samples[column]]

    return change


def twice_the_tokens(bundle: Tree) -> None:
    for cell in cells(bundle):
        cell["samples"]["output_tokens"] = [2 * count for count in cell["samples"]["output_tokens"]]
        figures_again(cell)


def more_tokens_than_counted(bundle: Tree) -> None:
    for cell in cells(bundle):
        cell["engine"]["output_tokens"] = 1


def one_sample_less(bundle: Tree) -> None:
    cell = cells(bundle)[0]
    cell["samples"] = {column: rows[1:] for column, rows in cell["samples"].items()}
    figures_again(cell)


def a_column_less(bundle: Tree) -> None:
    cells(bundle)[0]["samples"]["first_us"].pop()


def backwards(bundle: Tree) -> None:
    cell = cells(bundle)[0]
    samples = cell["samples"]
    samples["first_us"][0], samples["last_us"][0] = samples["ended_us"][0] + 500, samples["sent_us"][0]
    figures_again(cell)


def fewer_at_once(bundle: Tree) -> None:
    for cell in cells(bundle):
        cell["shape"]["concurrency"] = 1
        cell["marks"] = []


def shorter_cell(bundle: Tree) -> None:
    for cell in cells(bundle):
        cell["seconds"] /= 2
        figures_again(cell)


def no_marks(bundle: Tree) -> None:
    cells(bundle)[0]["marks"] = ["it was a Monday"]


SAMPLED: dict[str, tuple[Change, str]] = {
    "first tokens sooner": (halved_column("first_us"), "samples"),
    "answers sooner": (halved_column("ended_us"), "samples"),
    "a row of the wrong length": (a_column_less, "samples"),
    "twice the tokens": (twice_the_tokens, "clocks"),
    "an answer that is left out": (one_sample_less, "clocks"),
    "an answer that runs backwards": (backwards, "clocks"),
    "a cell shorter than its answers": (shorter_cell, "clocks"),
    "all clocks twice as fast": (lambda bundle: scale(bundle, 0.5), "engine-clock"),
    "all clocks a tenth faster": (lambda bundle: scale(bundle, 0.2), "engine-clock"),
    "all clocks a hundred times slower": (lambda bundle: scale(bundle, 100), "clocks"),
    "fewer tokens counted": (more_tokens_than_counted, "counts"),
    "a mark": (no_marks, "marks"),
}


@pytest.mark.parametrize(("change", "code"), SAMPLED.values(), ids=SAMPLED)
def test_samples_that_were_scaled_and_sealed_again(change: Change, code: str) -> None:
    bundle = copied()
    change(bundle)
    seal(bundle)
    claim_again(bundle)
    assert code in codes(judged(encoded(bundle)))


def test_more_in_flight_than_it_says() -> None:
    bundle = copied(3)  # two at once
    fewer_at_once(bundle)
    seal(bundle)
    claim_again(bundle)
    assert "clocks" in codes(judged(encoded(bundle)))


def lines(bundle: Tree) -> list[str]:
    found: list[str] = bundle["predicate"]["log"]
    return found


def log_of_another(bundle: Tree) -> None:
    bundle["predicate"]["log"] = lines(copied(13))


def other_context(bundle: Tree) -> None:
    bundle["predicate"]["log"] = [line.replace("= 1024", "= 512") for line in lines(bundle)]


def other_buffer(bundle: Tree) -> None:
    bundle["predicate"]["log"] = [
        line.replace(line.split("=")[1], "   9.00 MiB") if "KV buffer" in line else line for line in lines(bundle)
    ]


def smaller_weights(bundle: Tree) -> None:
    bundle["predicate"]["log"] = [
        line.replace(line.split("=")[1], "   0.10 MiB") if "model buffer" in line else line for line in lines(bundle)
    ]


def slower_engine(bundle: Tree) -> None:
    bundle["predicate"]["log"] = [
        re.sub(r"([\d.]+) ms /", lambda took: f"{100 * float(took[1]):.2f} ms /", line) for line in lines(bundle)
    ]


def fewer_requests(bundle: Tree) -> None:
    timed = [number for number, line in enumerate(lines(bundle)) if " eval time" in line]
    bundle["predicate"]["log"] = lines(bundle)[: timed[2]]


def other_measured(bundle: Tree) -> None:
    for line in records(bundle, "residuals")["lines"]:
        if line["term"] == "kv_cache":
            line["measured_bytes"]["value"] *= 3


LOGS: dict[str, tuple[Change, str]] = {
    "another's log": (log_of_another, "log"),
    "a smaller context": (other_context, "log"),
    "another buffer": (other_buffer, "log"),
    "another model's weights": (smaller_weights, "log"),
    "memory that it does not say": (other_measured, "log"),
    "an engine that worked longer": (slower_engine, "engine-clock"),
    "requests that it never had": (fewer_requests, "engine-clock"),
}


@pytest.mark.parametrize(("change", "code"), LOGS.values(), ids=LOGS)
def test_a_log_that_is_not_of_this_run(change: Change, code: str) -> None:
    bundle = copied()
    change(bundle)
    seal(bundle)
    assert code in codes(judged(encoded(bundle)))


def no_such_flag(bundle: Tree) -> None:
    records(bundle, "recipe")["arguments"].append(
        {"name": "--turbo", "value": None, "reason": "faster", "source": None}
    )


def larger_pool(bundle: Tree) -> None:
    records(bundle, "residuals")["pool"]["measured_tokens"]["value"] = 10**9


def larger_pool_than_buffers(bundle: Tree) -> None:
    records(bundle, "residuals")["pool"]["measured_tokens"]["value"] *= 100


def thinner_tokens(bundle: Tree) -> None:
    records(bundle, "plan")["kv"]["bytes_per_token"] = 7


def heavier_model(bundle: Tree) -> None:
    """Terabytes at the speed of a megabyte, and a log to go with it."""
    model = records(bundle, "model")
    for line in model["weights"]:
        line["bytes"] *= 500_000
    for file in model["files"]:
        file["size_bytes"] = file["header_bytes"] + file["tensor_bytes"] * 500_000
        file["tensor_bytes"] *= 500_000
    bundle["predicate"]["model"]["shards"][0]["size_bytes"] = model["files"][0]["size_bytes"]


def larger_gpu(bundle: Tree) -> None:
    unknown = {"value": None, "basis": None, "source": "not probed"}
    gpu = {
        "index": 0, "name": "NVIDIA GeForce RTX 5090", "row": "rtx-5090",
        "memory_bytes": {"value": 96 * 2**30, "basis": "probed", "source": "nvidia-smi"},
        "memory_free_bytes": unknown,
    }  # fmt: skip
    from upright.facts.records.box import Gpu

    records(bundle, "box")["gpus"] = [Gpu.model_validate(gpu).model_dump(mode="json")]
    records(bundle, "box")["name"] = bundle["predicate"]["box"]["kind"] = "1x NVIDIA GeForce RTX 5090"
    bundle["predicate"]["box"]["gpus"] = 1


PHYSICS: dict[str, tuple[Change, str]] = {
    "a flag that it does not take": (no_such_flag, "flags"),
    "a pool larger than the box": (larger_pool, "pool"),
    "a pool larger than its buffers": (larger_pool_than_buffers, "pool"),
    "tokens smaller than they are": (thinner_tokens, "pool"),
    "decode above the bandwidth": (heavier_model, "bandwidth"),
    "a GPU with too much memory": (larger_gpu, "box"),
}


@pytest.mark.parametrize(("change", "code"), PHYSICS.values(), ids=PHYSICS)
def test_what_cannot_be(change: Change, code: str) -> None:
    bundle = copied()
    change(bundle)
    seal(bundle)
    assert code in codes(judged(encoded(bundle)))


NOBODY = {"value": None, "basis": None, "source": None}
CACHE = {"path": "/data", "mount": "/", "free_bytes": NOBODY, "used_bytes": NOBODY}
LEAKS: dict[str, Change] = {
    "a path of the program": put("records", "recipe", "program", to="/opt/secret/llama-server"),
    "a path of the weights": put("records", "recipe", "model_path", to="/data/weights.gguf"),
    "a home": put("records", "recipe", "arguments", 1, "reason", to="see /home/margaret/notes"),
    "a token": put("records", "recipe", "arguments", 1, "value", to="hf_" + "a" * 30),
    "a mail address": put("records", "plan", "kv", "formula", to="ask margaret@example.com"),
    "a public address": put("detectors", "upright", to="8.8.8.8"),
    "a path of the model": put("records", "model", "path", to="/data/weights.gguf"),
    "a question": put("records", "evidence", "observations", 0, "request", to={"messages": "my prompt"}),
    "an answer": put("records", "evidence", "observations", 0, "response", to={"text": "an answer"}),
    "a sentence": put("records", "evidence", "observations", 0, "reason", to="it said: margaret"),
    "a server's words": put("benchmarks", 0, "cells", 0, "error_samples", to={"500": "my prompt"}),
    "an endpoint": put("benchmarks", 0, "base_url", to="http://10.0.0.7:8000"),
    "a port": put("records", "recipe", "port", to=31337),
    "a folder": put("records", "box", "model_cache", to=CACHE),
}  # fmt: skip


@pytest.mark.parametrize("change", LEAKS.values(), ids=LEAKS)
def test_what_redaction_takes_out_must_not_be_there(change: Change) -> None:
    bundle = copied()
    change(bundle)
    seal(bundle)
    assert "redaction" in codes(judged(encoded(bundle)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[]", "no bundle"),
        (b'{"_type": 1}', "no bundle"),
        (b"[" * 100_000, "nested"),
        (b'{"_type":"https://in-toto.io/Statement/v1"}', "subject"),
        (b'{"_type":"https://in-toto.io/Statement/v1","a":NaN}', "canonical"),
        (b'{"_type":"https://in-toto.io/Statement/v1","a":1,"a":2}', "canonical"),
        (b'{"_type":"https://in-toto.io/Statement/v1","a":"\\ud800"}', "canonical"),
        (b'{"_type":"https://in-toto.io/Statement/v1","a":1e999}', "canonical"),
    ],
)  # fmt: skip
def test_what_is_no_bundle(content: bytes, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        read_statement(content, "it")


def test_another_spelling_has_another_digest_and_is_refused() -> None:
    with pytest.raises(RecordError, match="canonical"):
        read_statement(encoded(copied()) + b"\n", "it")


def test_unknown_names_are_refused() -> None:
    bundle = copied()
    bundle["predicate"]["extra"] = "more"
    with pytest.raises(RecordError, match=r"predicate\.extra"):
        read_statement(encoded(bundle), "it")


def test_escapes_in_a_name_reach_no_terminal() -> None:
    bundle = copied()
    bundle["predicate"]["extra\x1b[2J\n"] = 1
    with pytest.raises(RecordError) as raised:
        read_statement(encoded(bundle), "it")
    assert "\x1b" not in raised.value.message
    assert "\n" not in raised.value.message


def test_there_are_sixty_and_more_lies() -> None:
    tables = (CARELESS, CHAINS, SUMMARIES, HEADLINES, SAMPLED, LOGS, PHYSICS, LEAKS)
    assert sum(map(len, tables)) >= 60
