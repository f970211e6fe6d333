"""`--place`: so many layers of experts on each GPU as somebody wants, planned by the judgement that fills them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import upright as library
from tests.conftest import Upright
from upright.facts.records.plan import Plan

BOX = "2x-rtx-pro-6000-max-q-epyc-9175f"
IQ3_K, Q4_X = "ubergarm/Kimi-K2.6-GGUF:IQ3_K", "ubergarm/Kimi-K2.6-GGUF:Q4_X"
HERE = ("--box", BOX, "--engine", "ik_llama.cpp", "--context", "16k")


def planned(place: str | None, model: str = IQ3_K, **wishes: object) -> Plan:
    return library.plan(model, BOX, engine="ik_llama.cpp", context_tokens=16_384, place=place, **wishes)[0]


def layers(plan: Plan) -> dict[str, tuple[int, ...]]:
    return {place.device: place.layers for place in plan.expert_places}


def test_head_and_tail_of_the_model_as_many_as_were_asked_for():
    assert layers(planned("none")) == {"host": tuple(range(1, 61))}
    assert layers(planned("3+3")) == {"gpu0": (1, 2, 3), "gpu1": (58, 59, 60), "host": tuple(range(4, 58))}
    assert layers(planned("8+2")) == {"gpu0": tuple(range(1, 9)), "gpu1": (59, 60), "host": tuple(range(9, 59))}
    assert layers(planned("4")) == {"gpu0": (1, 2, 3, 4), "host": tuple(range(5, 61))}
    assert layers(planned("filled")) == layers(planned(None))


def test_what_the_experts_leave_over_is_the_caches():
    none, some, filled = planned("none"), planned("3+3"), planned("filled")
    assert none.kv.low_tokens > some.kv.low_tokens > 1_000_000
    assert filled.kv.low_tokens == filled.kv.planned_tokens == 16_384


def test_more_than_there_is_room_for_does_not_fit_and_filling_does(upright: Upright):
    answer = upright("plan", Q4_X, *HERE, "--place", "20+20", "--json")
    (best, *_) = json.loads(answer.stdout)["plans"]
    assert answer.returncode == 1
    assert [no["device"] for no in best["objections"]] == ["gpu0", "gpu1"]
    assert best["nearest"][0]["options"] == ["--place", "filled"]
    assert "--place filled" in upright("plan", Q4_X, *HERE, "--place", "20+20").stderr


def test_the_fourth_report_read_prompts_in_this_order(upright: Upright):
    """-ub is stated for 377 alone. 367 and 480 GB go over a slot of 54 GB/s once for each ubatch: at 185 and 223 tok/s
    it had 2,048 tokens, and at 567 more than 4,096, which would take 7.2 s for 8.9 s of copies."""

    def prefill(model: str, place: str, ubatch: int) -> float:
        words = ("--place", place, "--ubatch", str(ubatch), "--json")
        return float(json.loads(upright("plan", model, *HERE, *words).stdout)["plans"][0]["speed"]["prompt"]["best"])

    none, balanced = prefill(IQ3_K, "none", 2048), prefill(IQ3_K, "3+3", 2048)
    heavy, other_type = prefill(IQ3_K, "8+2", 4096), prefill(Q4_X, "8+2", 8192)
    assert none < balanced < heavy < other_type
    for found, measured in ((none, 185), (balanced, 223), (heavy, 377), (other_type, 567)):
        assert found == pytest.approx(measured, rel=0.15)


def test_decode_of_the_fourth_report(upright: Upright):
    for place, measured in (("none", 18.9), ("3+3", 20.9), ("8+2", 20.3)):
        speed = planned(place).speed
        assert speed is not None
        assert speed.empty.best == pytest.approx(measured, rel=0.06)


@pytest.mark.parametrize("verb", ["render", "plan", "compare"])
def test_every_verb_takes_the_same_word(upright: Upright, verb: str):
    said = upright(verb, IQ3_K, *HERE, "--place", "2+1")
    shown = {
        "render": r"blk\.([12])\.ffn_.*_exps=CUDA0",
        "plan": "experts of layers 1-2 on gpu0, 60 on gpu1, 3-59 in system RAM",
        "compare": "57 layers",
    }
    assert shown[verb] in said.stdout
    if verb != "render":
        assert "--place 2+1" in said.stderr  # the next command


def test_a_plans_file_keeps_it(upright: Upright, tmp_path: Path):
    path = tmp_path / "plan.json"
    upright("plan", IQ3_K, *HERE, "--place", "2+1", "-o", str(path))
    assert json.loads(path.read_text())["goal"]["place"] == "2+1"


@pytest.mark.parametrize(
    ("model", "words", "told"),
    [
        (IQ3_K, (*HERE, "--place", "9+x"), "9+x is no placement of experts"),
        (IQ3_K, (*HERE, "--place", ""), "is no placement of experts"),
        (IQ3_K, (*HERE, "--place", "1+1+1"), "1+1+1 is of 3 GPUs, the box has 2 GPUs"),
        (IQ3_K, (*HERE, "--place", "40+40"), "has 60 layers of experts"),
        ("gpt-oss-20b", ("--box", "1x-rtx-4090", "--place", "none"), "fits wholly on the GPUs"),
        ("gpt-oss-120b", ("--box", "m4-max", "--ram", "96GB", "--place", "3"), "no GPU with memory of its own"),
        ("qwen3-32b", ("--box", "1x-rtx-4090", "--place", "3"), "has no routed experts"),
        ("kimi-k2.6", ("--box", "8x-rtx-pro-6000-server", "--engine", "vllm", "--place", "3"), "no whole layers"),
    ],
)
def test_what_cannot_be_placed_is_one_line(upright: Upright, model: str, words: tuple[str, ...], told: str):
    said = upright("plan", model, *words)
    assert said.returncode == 2
    assert told in said.stderr
    assert "Traceback" not in said.stderr
    assert not said.stdout


def test_a_hybrid_plan_compares_placements_that_are_planned_by_the_same_function(upright: Upright):
    answer = json.loads(upright("plan", IQ3_K, *HERE, "--place", "8+2", "--json").stdout)
    rows = {row["place"]: row for row in answer["placements"]}
    assert list(rows) == ["10+10", "7+7", "8+2", "none"]
    for place, row in rows.items():
        plan = planned(place)
        assert plan.speed is not None
        assert plan.speed.prompt is not None
        assert row["decode"]["best"] == plan.speed.decode.best
        assert row["prefill"]["4096"]["best"] == plan.speed.prompt.best
        assert row["prefill"]["2048"]["best"] == planned(place, batched_tokens=2048).speed.prompt.best  # type: ignore[union-attr]
        assert row["context_tokens"] == (16_384 if place == "10+10" else 262_144)
    assert [place for place, row in rows.items() if row["for_use"]] == ["10+10"]


def test_the_table_is_short_and_only_of_hybrids(upright: Upright):
    lines = upright("plan", IQ3_K, *HERE, "--use", "long-documents", COLUMNS="80").stdout.splitlines()
    (first,) = (number for number, line in enumerate(lines) if line.startswith("  --place"))
    table = lines[first : first + 5]
    assert all(len(line) <= 80 for line in table)
    assert table[1].endswith("soonest done")
    assert table[4].startswith("  none")
    for whole in (("gpt-oss-20b", "--box", "1x-rtx-4090"), ("gpt-oss-120b", "--box", "m4-max", "--ram", "96GB")):
        answer = upright("plan", *whole, "--json").stdout
        assert "placements" not in json.loads(answer)
