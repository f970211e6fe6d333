"""Repeats count by who made them, and a copy is none."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.evidence.share.tampering import Tree, cells, claim_again, copied, encoded, figures_again, seal
from upright.evidence.share.checks import Verification
from upright.evidence.share.opening import open_bundle
from upright.evidence.share.repeats import compared_cells
from upright.evidence.share.signing import BUNDLES, fingerprints, sign
from upright.evidence.share.statement import identity_of
from upright.facts.records.benchmark import Benchmark


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    for name in ("author", "friend", "stranger"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", folder / name], check=True)
    return folder


def measured_again(bundle: Tree, microseconds: int) -> None:
    """Every answer a little later, as another run would have it."""
    for cell in cells(bundle):
        for column in ("first_us", "last_us", "ended_us"):
            cell["samples"][column] = [time + microseconds for time in cell["samples"][column]]
        cell["seconds"] += microseconds / 1e6
        figures_again(cell)
    seal(bundle)
    claim_again(bundle)


def another_engine(bundle: Tree) -> None:
    recipe = bundle["predicate"]["records"]["recipe"]
    bundle["predicate"]["engine"]["version"] = recipe["engine_version"] = "b11670"
    seal(bundle)


def placed(folder: Path, name: str, bundle: Tree, key: Path) -> Path:
    file = folder / f"{name}.bundle.json"
    file.write_bytes(encoded(bundle))
    sign(file, key, BUNDLES)
    return file


def repeat_of(
    claim: Path, folder: Path, key: Path, *, later: int, change: Callable[[Tree], None] | None = None
) -> Path:
    bundle = copied()
    bundle["predicate"]["replays"] = [identity_of(claim.read_bytes())]
    bundle["predicate"]["box"]["box_id"] = identity_of(f"{key.name} {later}".encode())
    if later:
        measured_again(bundle, later)
    if change is not None:
        change(bundle)
    return placed(folder, f"{key.name}-{later}", bundle, key)


@pytest.fixture
def claim(tmp_path: Path, keys: Path) -> Path:
    return placed(tmp_path, "claim", copied(), keys / "author")


def judged(claim: Path, keys: Path, *repeats: Path) -> Verification:
    trusted = fingerprints(keys / "author.pub") | fingerprints(keys / "friend.pub")
    return open_bundle(claim, trusted=trusted, repeats=repeats).verification


def test_a_friend_raises_the_level(claim: Path, keys: Path, tmp_path: Path) -> None:
    verification = judged(claim, keys, repeat_of(claim, tmp_path, keys / "friend", later=7))
    assert (verification.level, verification.reproduced_by) == ("reproduced", 1), verification.checks[-1]


def test_a_stranger_is_counted_apart(claim: Path, keys: Path, tmp_path: Path) -> None:
    repeat = repeat_of(claim, tmp_path, keys / "stranger", later=7)
    for verification in (judged(claim, keys, repeat), open_bundle(claim, repeats=[repeat]).verification):
        assert (verification.level, verification.reproduced_by) == ("consistent", 0)
        assert verification.unverified_signers == 1, verification.checks[-1]


@pytest.mark.parametrize(
    ("later", "change", "reason"), [(0, None, "a copy"), (7, another_engine, "another engine")], ids=["copy", "engine"]
)
def test_what_is_no_repeat(
    claim: Path, keys: Path, tmp_path: Path, later: int, change: Callable[[Tree], None] | None, reason: str
) -> None:
    verification = judged(claim, keys, repeat_of(claim, tmp_path, keys / "friend", later=later, change=change))
    assert (verification.level, verification.unverified_signers) == ("consistent", 0)
    assert reason in verification.checks[-1].reason


def test_a_copy_of_a_repeat_is_none(claim: Path, keys: Path, tmp_path: Path) -> None:
    first = repeat_of(claim, tmp_path, keys / "stranger", later=7)
    (tmp_path / "more").mkdir()
    bundle = copied()
    bundle["predicate"]["replays"] = [identity_of(claim.read_bytes())]
    bundle["predicate"]["box"]["box_id"] = "5" * 64
    measured_again(bundle, 7)
    again = placed(tmp_path / "more", "again", bundle, keys / "friend")
    verification = judged(claim, keys, first, again)
    assert (verification.level, verification.unverified_signers) == ("consistent", 1)
    assert "a copy" in verification.checks[-1].reason


FIGURES = st.lists(st.floats(0.5, 500), min_size=1, max_size=4)


def measured(claim: Path, figures: list[float]) -> tuple[Benchmark, ...]:
    """The claim's benchmark with one shape, and as many repeats of it as there are figures."""
    benchmark = open_bundle(claim).benchmarks[0]
    first = next(cell for cell in benchmark.cells if not cell.marks and cell.output_tokens_per_second)
    repeats = [
        first.model_copy(update={"output_tokens_per_second": figure, "repeat": at})
        for at, figure in enumerate(figures, 1)
    ]
    return (benchmark.model_copy(update={"cells": tuple(repeats)}),)


@pytest.fixture(scope="module")
def known_claim(tmp_path_factory: pytest.TempPathFactory, keys: Path) -> Path:
    return placed(tmp_path_factory.mktemp("claim"), "claim", copied(), keys / "author")


@pytest.mark.slow
@given(there=FIGURES, here=FIGURES)
def test_the_ratio_is_the_one_of_the_two_figures_that_are_printed(
    known_claim: Path, there: list[float], here: list[float]
) -> None:
    cell = next(
        cell
        for cell in compared_cells(measured(known_claim, there), measured(known_claim, here))
        if cell.metric == "output"
    )
    assert cell.factor == pytest.approx(cell.repeated / cell.claimed)
    assert cell.reason.startswith(f"{cell.factor:.2f} times")
    if "(" in cell.reason:
        low, high = map(float, cell.reason.partition("(")[2].partition(")")[0].split(" to "))
        assert low - 0.01 <= cell.factor <= high + 0.01
    if there == here:
        assert (cell.factor, cell.verdict) == (1, "agrees")


def test_noise_around_the_same_mean_is_no_difference(known_claim: Path) -> None:
    cells = compared_cells(measured(known_claim, [5, 35]), measured(known_claim, [20, 20]))
    cell = next(cell for cell in cells if cell.metric == "output")
    assert (cell.claimed, cell.repeated, cell.factor, cell.verdict) == (20, 20, 1, "agrees")


@pytest.mark.parametrize(
    ("there", "here", "verdict"),
    [
        ([100, 102], [101, 99], "agrees"),
        ([100, 102], [80, 82], "differs"),
        ([100, 102], [125, 121], "differs"),
        ([100, 150], [80, 82], "unclear"),
        ([100], [101], "agrees"),
        ([100], [79], "differs"),
    ],
)
def test_two_cells_are_enough(known_claim: Path, there: list[float], here: list[float], verdict: str) -> None:
    cells = compared_cells(measured(known_claim, there), measured(known_claim, here))
    assert next(cell.verdict for cell in cells if cell.metric == "output") == verdict


def test_what_cannot_be_told_says_how_many_would_tell_and_no_wild_interval(known_claim: Path) -> None:
    cells = compared_cells(measured(known_claim, [284.1, 120.0]), measured(known_claim, [200.0, 110.0]))
    cell = next(cell for cell in cells if cell.metric == "output")
    assert cell.verdict == "unclear"
    assert re.fullmatch(r"0\.77 times: \d+ repeats of each would tell", cell.reason), cell.reason
    [enough] = map(int, re.findall(r": (\d+) repeats", cell.reason))
    assert enough > 2
