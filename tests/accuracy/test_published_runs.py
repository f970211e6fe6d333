"""Published runs beside what `upright plan` prints for them, and beside what docs/accuracy.md claims."""

from __future__ import annotations

import csv

import pytest

from tests.accuracy.published_runs import STATED, Answered, ask, one_prompt, published, repacked, sampled
from tests.conftest import ROOT
from upright.facts import catalog
from upright.planning.speed.published import gpu_of

# Over all rows in November 2026: 79 % answered, 94 % of them inside: Vulkan behind long contexts and one engine of Macs
# lie outside.
ANSWERED, INSIDE = 0.77, 0.95


def claimed() -> dict[str, bool]:
    """Row -> whether the page counts it as inside; rows that it calls not known are left out."""
    with STATED.open(encoding="utf-8", newline="") as opened:
        rows = [row for row in csv.DictReader(opened) if row["low"]]
    return {row["id"]: float(row["low"]) <= float(row["measured"]) <= float(row["high"]) for row in rows}


def judge(answers: list[Answered]) -> None:
    """What the page claims of these runs is no better than what the command prints today."""
    of_page = claimed()
    known = [answer for answer in answers if answer.known]
    assert len(known) >= sum(answer.row.id in of_page for answer in answers)
    worse = [answer.row.id for answer in answers if of_page.get(answer.row.id) and not answer.inside]
    assert worse == []


def test_the_page_claims_no_more_than_the_command_prints():
    judge([ask(row) for row in sampled()[::3]])


def test_the_front_page_claims_what_is_found_where_nothing_was_fitted():
    with (ROOT / "tests/accuracy/held_out_families_stated.csv").open(encoding="utf-8", newline="") as opened:
        stated = list(csv.DictReader(opened))
    page = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    for kind in ("model", "GPU"):
        runs = [line for line in stated if line["kind"] == kind]
        known = [line for line in runs if line["low"]]
        inside = [line for line in known if float(line["low"]) <= float(line["measured"]) <= float(line["high"])]
        assert f"{len(known)} of {len(runs)}, {len(inside) / len(known):.0%}" in page
    assert str(len(published())) not in page.replace(",", ""), "runs that were fitted claim nothing there"


def test_the_page_speaks_of_runs_that_are_there():
    assert set(claimed()) <= {row.id for row in published()}
    assert len(sampled()) >= 50


def test_runs_with_one_prompt_for_all_users_are_left_out():
    left_out = [row for row in catalog.measurements() if one_prompt(row)]
    assert left_out
    assert all((row.concurrency or 1) > 1 and row.context_tokens for row in left_out)


@pytest.mark.parametrize("name", ["s1559", "s1584"])
def test_more_users_than_the_compute_serves_get_no_figure(name: str):
    """100 on H20, 1,000 on B200: planned two and seven times too fast while only bytes were counted."""
    (row,) = (row for row in published() if row.id == name)
    answer = ask(row)
    assert not answer.known
    assert "limited by compute" in answer.why


def test_prompts_of_experts_interleaved_for_the_processor_have_no_figure():
    """ik_llama.cpp with -rtr read 164 tok/s where copies to the same GPU would give 62, as mainline's 55 do."""
    runs = [row for row in published() if repacked(row)]
    assert len(runs) >= 40
    assert all(row.engine == "ik_llama.cpp" and not ask(row).known for row in runs)
    (copied,) = (row for row in published() if row.id == "s1222")
    assert ask(copied).inside


@pytest.mark.parametrize("name", ["s1201", "s1239", "s1321", "s1329"])
def test_processors_with_two_and_eight_channels_lie_inside(name: str):
    """A Ryzen 9950X beside a GPU; a Threadripper PRO alone, with an empty and with a long context."""
    (row,) = (row for row in published() if row.id == name)
    assert ask(row).inside


@pytest.mark.parametrize("name", ["m312", "m316", "m318", "m321", "m326"])
def test_loads_served_with_long_prompts_lie_inside(name: str):
    """4 to 64 users of 8,192 tokens on NVLink: without others' prompts 11 of 15 such runs were below their band."""
    (row,) = (row for row in catalog.measurements() if row.id == name)
    assert ask(row.model_copy(update={"gpu": gpu_of(row), "artifact": row.model})).inside


@pytest.mark.slow
def test_all_published_runs():
    answers = [ask(row) for row in published()]
    known = [answer for answer in answers if answer.known]
    judge(answers)
    assert len(known) / len(answers) >= ANSWERED
    assert sum(answer.inside for answer in known) / len(known) >= INSIDE
