"""Every row of every set: its own sample must satisfy its rule, and a wrong answer must not."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest

from upright.base.errors import UsageError
from upright.proof.ladder.long_text import hiding_places, lengths, long_text
from upright.proof.ladder.prompts import SETS, Dialogue, PromptSet, Question, prompt_set
from upright.proof.ladder.rules import judge, says
from upright.proof.ladder.rungs.task import TOOLS
from upright.proof.ladder.sandbox import run_assertions
from upright.proof.ladder.schemas import misfit


def questions() -> Iterator[tuple[str, Question]]:
    for name in SETS:
        prompts = prompt_set(name)
        rows = list(prompts.smoke)
        if prompts.needles is not None:
            rows += [row for row in prompts.needles.follow_ups if isinstance(row, Question)]
        for number, row in enumerate(rows, start=1):
            yield f"{name} {row.check} {number}", row


def dialogues(prompts: PromptSet) -> Iterator[Dialogue]:
    waiting = list(prompts.dialogues)
    if prompts.needles is not None:
        waiting += [row for row in prompts.needles.follow_ups if isinstance(row, Dialogue)]
    while waiting:
        row = waiting.pop()
        yield row
        waiting += [row.then] if row.then else []


@pytest.mark.parametrize("row", [pytest.param(row, id=name) for name, row in questions()])
def test_the_sample_is_right_and_garbage_is_wrong(row: Question) -> None:
    assert judge(row.rule, row.sample, row.expect) is None
    assert judge(row.rule, "!!!!!!!!", row.expect) is not None


@pytest.mark.parametrize("name", SETS)
def test_dialogues_fit_their_own_tools(name: str) -> None:
    prompts = prompt_set(name)
    for row in dialogues(prompts):
        assert set(row.tools) <= set(prompts.tools)
        for call in row.calls:
            assert misfit(call.arguments, prompts.tools[call.name]["parameters"]) is None
        assert len(row.results) in (0, len(row.calls)), row.ask
        if row.says is not None:
            assert says(row.sample, row.says) is None
        assert bool(row.calls) or row.says is not None, "nothing would be judged"


@pytest.mark.parametrize("name", SETS)
def test_a_text_begins_every_longer_one(name: str) -> None:
    needles = prompt_set(name).needles
    assert needles is not None
    text = long_text(needles, 900, seed=7)
    assert text.beginning(900).startswith(text.beginning(300))
    assert text == long_text(needles, 900, seed=7)
    assert text != long_text(needles, 900, seed=8)
    for fact in text.facts:
        assert needles.fact.format(key=fact.key, number=fact.number) in text.beginning(900)


@pytest.mark.parametrize("context", [1_024, 4_096, 5_000, 65_536, 100_000, 262_144])
@pytest.mark.parametrize("name", SETS)
def test_a_number_is_hidden_where_it_is_looked_for(name: str, context: int) -> None:
    needles = prompt_set(name).needles
    assert needles is not None
    counts = [length // 16 for length in lengths(needles, context)]
    text = long_text(needles, counts[-1], 7, hiding_places(needles.depths, counts))
    assert len({fact.key for fact in text.facts}) == len(text.facts), "one number a key"
    for count in counts:
        for depth in needles.depths:
            assert abs(text.fact_at(depth, count).place / count - depth) < 0.05, (count, depth)


def test_numbers_do_not_lead_astray() -> None:
    """The tiny model copies by what stood before: no digit twice in a number, no two neighbours in two of them."""
    needles = prompt_set("tiny").needles
    assert needles is not None
    for seed in range(50):
        numbers = [fact.number for fact in long_text(needles, 400, seed, range(0, 400, 45)).facts]
        pairs = [pair for number in numbers for pair in pairwise(number)]
        assert len(numbers) == 9
        assert len(set(pairs)) == len(pairs)
        assert all(len(set(number)) == needles.digits for number in numbers)


def test_lengths_of_the_seeds_and_the_same_proportions() -> None:
    needles = prompt_set("real").needles
    assert needles is not None
    assert lengths(needles, 65_536) == [65_536]
    assert lengths(needles, 100_000) == [65_536, 98_304, 100_000]
    assert lengths(needles, 262_144) == [65_536, 98_304, 131_072, 262_144]
    assert lengths(needles, 4_096) == [1_024, 1_536, 2_048, 4_096]


@pytest.mark.parametrize("name", SETS)
def test_a_task_is_undone_before_and_done_after(name: str) -> None:
    task = prompt_set(name).task
    if task is None:
        pytest.skip("the set has no task")
    assert set(task.tools) <= set(TOOLS)
    for assertions in task.tests.values():
        assert not run_assertions(task.files, assertions).ok
        assert run_assertions({**task.files, **task.sample}, assertions).ok


def test_a_set_has_a_name_and_a_digest() -> None:
    assert prompt_set("real").digest != prompt_set("tiny").digest
    with pytest.raises(UsageError, match="no prompt set named huge"):
        prompt_set("huge")
