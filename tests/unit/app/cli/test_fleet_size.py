"""upright fleet size, as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.golden.deployments import recipe
from upright.facts import catalog
from upright.facts.records.benchmark import Benchmark, Cell, Machine, Shape, Spread

CHAT = ("fleet", "size", "kimi-k2.6", "--box", "hgx-b200", "--use", "chat")


def test_json_holds_every_number_with_its_basis(upright):
    done = upright(*CHAT, "--users", "40", "--price", "hour=20,kwh=0.3", "--usage", "thinking_seconds=2m", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["record"] == "sizing"
    assert answer["boxes"] >= 1
    assert answer["low_boxes"] <= answer["boxes"] <= answer["high_boxes"]
    assert answer["spares"] == 0, "a spare for one box is asked for"
    assert answer["context_tokens"] == 32_768
    assert answer["curve"]["basis"] == "derived"
    assert answer["usage"]["thinking_seconds"] == {"value": 120.0, "basis": "assumed", "source": "as you say"}
    assert answer["usage"]["answer_tokens"]["basis"] == "catalog"
    assert {cost["name"] for cost in answer["costs"]} == {
        "watts at full load", "rent a month", "energy a month", "a month and user",
    }  # fmt: skip
    assert done.stderr.splitlines()[-1] == "next: upright plan kimi-k2.6 --use chat --box hgx-b200 --context 32768"


def test_the_page_fits_in_80_columns(upright):
    done = upright(*CHAT, "--users", "40", "--why")
    assert done.returncode == 0, done.stderr
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    assert "LMSYS-Chat-1M" in done.stdout
    assert "spare" in done.stdout


@pytest.mark.slow
def test_a_box_is_planned_for_as_many_at_once_as_need_the_fewest_boxes(upright, tmp_path):
    box = ("--box", "8x-rtx-pro-6000-server")
    done = upright("fleet", "size", "kimi-k2.6", *box, "--users", "14")
    assert "1 box (1 to 2) and no spares" in done.stdout, "planned for one at once it would be two"
    assert "131,072 tokens of context" in done.stdout.splitlines()[0]
    assert done.stderr.splitlines()[-1] == f"next: upright plan kimi-k2.6 {' '.join(box)} --context 131072 --users 8"
    file = tmp_path / "plan.json"
    assert upright("plan", "kimi-k2.6", *box, "-o", file).returncode == 0
    sized = upright("fleet", "size", file, "--users", "14")
    assert "2 boxes (2 to 4) and no spares" in sized.stdout, "a plan is sized as it is, on its own box"
    assert sized.stderr.splitlines()[-1] == f"next: upright render {file}"
    assert upright("render", file).returncode == 0


def test_a_promise_that_nobody_can_keep_is_exit_code_one(upright):
    done = upright(*CHAT, "--users", "5", "--slo", "ttft=5s,rate=5000")
    assert done.returncode == 1
    assert "No number of boxes is enough" in done.stdout
    assert done.stderr.splitlines()[-1].startswith("next: upright fleet size")


def test_misuse_is_exit_code_two_with_a_hint(upright, tmp_path):
    for words, complaint in (
        (("fleet", "size", "--users", "5"), "nothing says how one box serves"),
        (("fleet", "size", "kimi-k2.6"), "--users"),
        ((*CHAT, "--users", "0"), "--users"),
        ((*CHAT, "--users", "5", "--slo", "tfft=5s"), "tfft"),
        ((*CHAT, "--users", "5", "--slo", "ttft=soon"), "ttft=soon"),
        ((*CHAT, "--users", "5", "--slo", "share=2"), "share below 1"),
        ((*CHAT, "--users", "5", "--usage", "thinking=5"), "thinking_seconds"),
        ((*CHAT, "--users", "5", "--price", "euros=5"), "euros"),
        ((*CHAT, "--users", "5", "--pool-tokens", "64k"), "--pool-tokens goes with --evidence"),
        ((*CHAT, "--users", "5", "--streams", "4"), "--streams is not for vllm"),
        (("fleet", "size", "--users", "5", "--evidence", "nobody"), "nobody"),
        (("fleet", "size", "kimi-k2.6", "--box", "1x-rtx-5090", "--engine", "vllm", "--users", "5"), "does not fit"),
    ):
        done = upright(*words)
        assert done.returncode == 2, (words, done.stdout, done.stderr)
        assert complaint in done.stderr, (words, done.stderr)
        assert "Traceback" not in done.stderr


def test_evidence_in_a_file_is_measured(upright, tmp_path):
    path = tmp_path / "benchmark.json"
    path.write_text(_benchmark().to_json())
    done = upright(
        "fleet", "size", "--users", "50", "--use", "chat", "--evidence", path, "--pool-tokens", "100k",
        "--price", "kwh=0.3", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "note: --price kwh is in no cost" in done.stderr
    answer = json.loads(done.stdout)
    assert answer["curve"]["basis"] == "measured"
    assert answer["curve"]["why"] == "measured: 4 cells of r"
    assert answer["low_boxes"] == answer["boxes"] == answer["high_boxes"]
    assert answer["costs"] == []


def test_earlier_evidence_is_not_forgotten(upright, tmp_path):
    _deployment(tmp_path, "alpha")
    bare = tmp_path / "benchmark.json"
    bare.write_text(_benchmark().to_json())
    size = ("fleet", "size", "--users", "20", "--use", "chat", "--evidence", "alpha", "--evidence", bare)
    done = upright(*size, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["curve"]["pool_tokens"] == 8 * 65_536
    bare.write_text(_benchmark(model="another").to_json())
    done = upright(*size)
    assert done.returncode == 2
    assert "several models: another, m" in done.stderr


def test_what_is_next_after_a_no_repeats_everything_that_was_asked(upright, tmp_path):
    _deployment(tmp_path, "alpha")
    _deployment(tmp_path, "beta")
    asked = ("--users", "5", "--use", "chat", "--evidence", "alpha", "--evidence", "beta", "--context", "32k")
    asked += ("--streams", "4", "--pool-tokens", "1048577", "--usage", "turns=3,thinking_seconds=2m")
    done = upright("fleet", "size", *asked, "--slo", "ttft=5s,rate=5000,share=0.9")
    assert done.returncode == 1, done.stderr
    words = done.stderr.splitlines()[-1].removeprefix("next: upright ").split()
    assert words[2:] == [
        "--slo", "ttft=5s,rate=66,share=0.9", "--users", "5", "--use", "chat", "--evidence", "alpha", "--evidence",
        "beta", "--context", "32768", "--streams", "4", "--pool-tokens", "1048577", "--usage",
        "turns=3,thinking_seconds=120",
    ]  # fmt: skip
    assert upright(*words).returncode == 0


def _benchmark(model: str = "m") -> Benchmark:
    def spread(value: float) -> Spread:
        return Spread(count=9, mean=value, low=value, p50=value, p90=value, p99=value, high=value)

    cells = [
        Cell(
            run="r", workload="matrix", api="chat", at="", seconds=9, sent=9, succeeded=9,
            shape=Shape(prompt_tokens=prompt, output_tokens=128, concurrency=streams, requests=9),
            in_flight_mean=streams, in_flight_peak=streams, prompt_tokens=spread(prompt), output_tokens=spread(128),
            ttft_seconds=spread(0.05 + prompt / 8000), tpot_seconds=spread(0.01 + 0.002 * streams),
            machine=Machine(program="test", version=None),
        )
        for streams in (1, 16) for prompt in (1024, 8192)
    ]  # fmt: skip
    return Benchmark(
        run="r", title="t", workload="matrix", about="", deployment=None, model=model, engine=None, engine_version=None,
        base_url=None, at="", seed=0, repeats=1, self_test=None, cells=tuple(cells),
    )  # fmt: skip


def test_evidence_of_a_deployment_brings_what_else_it_knows(upright, tmp_path):
    folder = _deployment(tmp_path, "tiny")
    (folder / "benchmarks/r.json").unlink()
    done = upright("fleet", "size", "--users", "50", "--use", "chat", "--evidence", "tiny")
    assert done.returncode == 2
    assert "was never benchmarked" in done.stderr
    _deployment(tmp_path, "tiny")
    done = upright("fleet", "size", "--users", "50", "--use", "chat", "--evidence", "tiny", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["curve"]["streams"], answer["curve"]["pool_tokens"]) == (8, 8 * 65_536)
    assert answer["context_tokens"] == 65_536
    assert answer["costs"][0]["name"] == "watts at full load"


def _deployment(tmp_path: Path, name: str) -> Path:
    """One that was benchmarked."""
    folder = tmp_path / "home/deployments" / name
    (folder / "benchmarks").mkdir(parents=True, exist_ok=True)
    (folder / "deployment.json").write_text("{}")  # that it is there; nobody reads it here
    (folder / "benchmarks/r.json").write_text(_benchmark().to_json())
    made = recipe("kimi-k26-ik-llama").model_copy(update={"context_tokens": 65_536, "users": 8})
    (folder / "recipe.json").write_text(made.to_json())
    (folder / "box.json").write_text(catalog.box_record("2x-rtx-pro-6000-max-q-epyc-9175f").to_json())
    return folder
