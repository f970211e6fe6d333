"""The same failure as another machine would have logged it: other paths, numbers, ranks and stamps, same answer."""

from __future__ import annotations

import random
import re
import textwrap
from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest

from tests.failure_board import diagnosed, recorded, threads
from tests.unit.serving.diagnose.noise import NOISE
from upright.facts import catalog
from upright.facts.records.diagnosis import Diagnosis

Mutation = Callable[[str, random.Random, str], str]
"""Text, chance, and the engine whose log it is."""
SAMPLE = 12
"""One in so many is tried each time; all of them by the slow test."""
_FOLDERS = re.compile(r"/(?:root|home/\w+|usr/local|opt/\w+|workspace|sgl-workspace|mnt/\w+)/")
_LONG_NUMBER = re.compile(r"(?<![\w.])\d{5,}(?![\w.])")
_WORKS = re.compile(r"HTTP/1\.1|throughput|log_server_r|print_timing|slots are idle|batch\. #|Decode batch")
"""An engine that still answers after the line was not ended by it."""
_RANK = re.compile(r"\b(Worker_TP|TP|DP|EP|\[?rank)\d\b")


def other_folders(text: str, dice: random.Random, engine: str) -> str:
    return _FOLDERS.sub(f"/srv/disk{dice.randrange(9)}/", text)


def other_numbers(text: str, dice: random.Random, engine: str) -> str:
    return _LONG_NUMBER.sub(lambda run: str(dice.randrange(10 ** (len(run[0]) - 1), 10 ** len(run[0]))), text)


def other_pids(text: str, dice: random.Random, engine: str) -> str:
    return re.sub(r"pid=\d+", lambda _: f"pid={dice.randrange(2, 99999)}", text)


def other_ranks(text: str, dice: random.Random, engine: str) -> str:
    return _RANK.sub(lambda rank: f"{rank[1]}{dice.randrange(8)}", text)


def other_python(text: str, dice: random.Random, engine: str) -> str:
    return re.sub(r"python3\.\d+", f"python3.{dice.randrange(10, 14)}", text)


def in_a_pod(text: str, dice: random.Random, engine: str) -> str:
    stamp = f"2026-11-1{dice.randrange(10)}T10:0{dice.randrange(10)}:00.123456789Z"
    return "\n".join(f"{stamp} stderr F {line}" for line in text.splitlines())


def in_compose(text: str, dice: random.Random, engine: str) -> str:
    return "\n".join(f"engine-{dice.randrange(1, 9)}  | {line}" for line in text.splitlines())


def coloured(text: str, dice: random.Random, engine: str) -> str:
    return "\n".join(f"\x1b[{dice.choice((31, 33, 36))}m{line}\x1b[0m" for line in text.splitlines())


def wide(text: str, dice: random.Random, engine: str) -> str:
    return "\n".join(f"{line}{' ' * dice.randrange(1, 40)}" for line in text.splitlines()) + "\r"


def among_others(text: str, dice: random.Random, engine: str) -> str:
    """Lines of a busy engine before, between and after, but not where they would say that it stands."""
    lines = text.splitlines()
    noise = NOISE.get(engine, NOISE["any"])(48, seed=dice.randrange(99))
    quiet = [line for line in noise if not _WORKS.search(line)]
    at = dice.randrange(len(lines))
    return "\n".join((*quiet[:3], *lines[:at], *quiet[3:5], *lines[at:]))


_BANNERS = {
    "vllm": "(EngineCore pid=271) INFO 01-29 10:00:00 [core.py:69] Initializing a V1 LLM engine (v0.{minor}.{patch})",
    "llama.cpp": "build: {minor}{patch}01 (6171c9d2) with cc (Debian 14.2.0-19) 14.2.0 for x86_64-linux-gnu",
}


def of_another_version(text: str, dice: random.Random, engine: str) -> str:
    """With the line before it by which that engine says its version, and another one."""
    banner = _BANNERS.get(engine)
    stamp = banner.format(minor=dice.randrange(10, 60), patch=dice.randrange(9)) + "\n" if banner else ""
    return stamp + text


def wrapped(text: str, dice: random.Random, engine: str) -> str:
    """As a terminal or a chat window breaks long lines, between words."""
    width = dice.choice((100, 120, 160))
    return "\n".join(
        piece
        for line in text.splitlines()
        for piece in textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False) or [""]
    )


MUTATIONS: tuple[Mutation, ...] = (
    other_folders, other_numbers, other_pids, other_ranks, other_python, in_a_pod, in_compose, coloured, wide,
    among_others, of_another_version,
)  # fmt: skip

OF_A_LOG = (other_ranks, other_pids, in_a_pod, in_compose, among_others, of_another_version)
"""They make a log of it, which a report in somebody's own words is not. Of a line that says what is slow they
make a start that never stood: another question."""
_OF_WORDS = {row.id for row in catalog.failures() if row.where in ("words", "part")}


def mutants() -> list[tuple[dict[str, Any], Mutation]]:
    failures = list(chain(recorded()["failures"], threads()))
    return [(failure, mutation) for failure in failures for mutation in MUTATIONS]


def changed(cases: list[tuple[dict[str, Any], Mutation]]) -> list[tuple[str, str, str | None, str | None]]:
    """Which of them are answered otherwise than the excerpt itself."""
    answers: dict[str, Diagnosis] = {}
    odd = []
    for failure, mutation in cases:
        excerpt = failure["excerpt"]
        if excerpt not in answers:
            answers[excerpt] = diagnosed(excerpt)
        answer = answers[excerpt]
        if mutation in OF_A_LOG and (answer.code in _OF_WORDS or not answer.failed):
            continue
        chance = random.Random(f"{failure['id']} {mutation.__name__}")
        mutant = diagnosed(mutation(excerpt, chance, failure["engine"])).code
        if mutant != answer.code:
            odd.append((failure["id"], mutation.__name__, answer.code, mutant))
    return odd


def test_there_are_two_thousand_of_them():
    assert len(mutants()) >= 2000


def test_a_sample_is_answered_as_the_excerpt_is():
    cases = random.Random(26).sample(mutants(), len(mutants()) // SAMPLE)
    assert changed(cases) == []


@pytest.mark.slow
def test_lines_that_were_broken_are_put_together_again():
    """A break may fall into the very words that tell; what is lost then is named, and is one in twenty-five at most."""
    long = [
        (failure, wrapped)
        for failure in chain(recorded()["failures"], threads())
        if max(map(len, failure["excerpt"].splitlines())) > 100
    ]
    assert len(long) >= 100
    assert len(odd := changed(long)) <= len(long) / 25, odd


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_all_are_answered_as_the_excerpts_are():
    assert changed(mutants()) == []
