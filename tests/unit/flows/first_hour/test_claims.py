"""FieldTest -> verdicts on the README's table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from upright.facts.records.first_hour import Ending, FieldAction, FieldFigure, FieldOutcome, FieldStep, FieldTest
from upright.flows.first_hour.claims import checks, claims
from upright.flows.first_hour.prediction_errors import prediction_error_lines
from upright.flows.first_hour.steps import climbed_words

README = Path(__file__).parents[4] / "README.md"


def test_there_is_one_for_each_line_of_the_readme() -> None:
    table = README.read_text().partition("## What has and has not run on a GPU")[2].partition("\n## ")[0]
    lines = re.findall(r"^\| ([^|]+) \| [^|]+ \|$", table, re.MULTILINE)
    assert [row.claim for row in claims()] == [line for line in lines if line != "what"]


def field_test(*outcomes: tuple[FieldStep, FieldOutcome], **fields: Any) -> FieldTest:
    whole: dict[str, Any] = {
        "name": "t", "at": "", "upright": "0", "box": "b", "box_identity": "x", "gpus": ("RTX",),
        "capabilities": ("12.0",), "budget_seconds": 60.0, "steps": tuple(step for step, _ in outcomes),
        "outcomes": tuple(outcome for _, outcome in outcomes), **fields,
    }  # fmt: skip
    return FieldTest(**whole)


def ended(
    action: FieldAction, engine: str | None = None, ending: Ending = "done", **fields: Any
) -> tuple[FieldStep, FieldOutcome]:
    name = f"{action} {engine}"
    step = FieldStep(name=name, action=action, engine=engine, estimated_seconds=1, estimate_why="", why="")
    return step, FieldOutcome(step=name, ending=ending, at="", **fields)


def verdict(test: FieldTest, claim: str) -> tuple[str, str]:
    check = next(check for check in checks(test) if check.claim == claim)
    return check.verdict, check.why


def test_nothing_is_held_that_nobody_tried() -> None:
    assert {check.verdict for check in checks(field_test())} == {"not judged"}


def test_a_box_without_a_gpu_judges_nothing() -> None:
    test = field_test(ended("start", "vllm"), gpus=())
    assert {check.verdict for check in checks(test)} == {"not judged"}
    assert verdict(test, "vLLM")[1] == "this box has no GPU"


def test_an_engine_that_stood_holds_and_one_that_fell_is_wrong() -> None:
    assert verdict(field_test(ended("start", "vllm")), "vLLM")[0] == "held"
    fell = field_test(ended("start", "vllm", "failed", why="out of memory"))
    assert verdict(fell, "vLLM") == ("wrong", "start vllm failed: out of memory")
    assert verdict(fell, "recipes for RTX PRO 6000, RTX 5090, DGX Spark, HGX")[0] == "wrong"
    assert verdict(fell, "llama.cpp")[0] == "not judged"


def test_a_step_that_was_not_begun_judges_nothing() -> None:
    assert verdict(field_test(ended("start", "vllm", "not begun", why="no time")), "vLLM")[0] == "not judged"


def test_a_claim_about_three_engines_needs_all_three() -> None:
    two = [ended("start", "sglang"), ended("start", "ik_llama.cpp")]
    assert verdict(field_test(*two), "SGLang, ik_llama.cpp, KTransformers")[1].startswith("ktransformers was not tried")
    assert (
        verdict(field_test(*two, ended("start", "ktransformers")), "SGLang, ik_llama.cpp, KTransformers")[0] == "held"
    )


@pytest.mark.parametrize(("measured", "expected"), [(95.0, "held"), (150.0, "wrong")])
@pytest.mark.parametrize(("action", "unit", "claim"), [("start", "tokens", "memory plans for GPUs"),
                                                       ("bench", "tok/s", "speed figures")])  # fmt: skip
def test_figures_are_judged_by_their_band(
    action: FieldAction, unit: str, claim: str, measured: float, expected: str
) -> None:
    figure = FieldFigure(what="it", unit=unit, planned=100, low=90, high=110, measured=measured)
    assert verdict(field_test(ended(action, "vllm", figures=(figure,))), claim)[0] == expected


@pytest.mark.parametrize(
    ("answer", "ending", "expected"),
    [("fits", "done", "held"), ("fits", "failed", "wrong"), ("does-not-fit", "done", "wrong"),
     ("does-not-fit", "failed", "held"), ("could-not-determine", "failed", "not judged")],
)  # fmt: skip
def test_a_kernel_verdict_is_judged_by_the_engine_that_launched_it(answer: str, ending: Ending, expected: str) -> None:
    test = field_test(ended("kernels", "vllm", answers={"answer": answer}), ended("start", "vllm", ending))
    assert verdict(test, "kernels and patches for SM120")[0] == expected
    other = test.model_copy(update={"capabilities": ("10.0",)})
    assert verdict(other, "kernels and patches for SM120")[0] == "not judged"


def test_weights_and_clients() -> None:
    large = FieldFigure(what="fetched", unit="bytes", planned=6e11, measured=6e11)
    assert verdict(field_test(ended("fetch", figures=(large,))), "weights of hundreds of gigabytes")[0] == "held"
    assert verdict(field_test(ended("fetch")), "weights of hundreds of gigabytes")[0] == "not judged"
    assert verdict(field_test(ended("prove", "vllm", answers={"clients": "passed"})), "clients")[0] == "held"
    assert verdict(field_test(ended("prove", "vllm", answers={"clients": "failed"})), "clients")[0] == "wrong"


def test_a_rung_that_the_time_left_out_was_not_climbed() -> None:
    answers = {"boot": "passed", "context": "passed", "task": "skipped", "clients": "skipped"}
    assert climbed_words(answers) == "climbed boot, context; skipped: task, clients"
    test = field_test(ended("prove", "vllm", answers=answers, why=climbed_words(answers)))
    lines = list(prediction_error_lines(test))
    told = lines[lines.index("Not all of it was proved") + 1]
    assert told == "  prove vllm: climbed boot, context; skipped: task, clients"
    whole = field_test(ended("prove", "vllm", answers={"boot": "passed"}, why="climbed boot"))
    assert "Not all of it was proved" not in list(prediction_error_lines(whole))
