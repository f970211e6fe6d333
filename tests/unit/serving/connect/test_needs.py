"""What clients need: rows that name real checks and real clients, and how a client fares with what was found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from upright.proof.ladder.rungs.clients import CHECKS
from upright.serving.connect.clients import CLIENTS
from upright.serving.connect.requirements import (
    ClientRequirements,
    ClientVerdict,
    all_requirements,
    client_verdict,
    needed_checks,
)

RECORDINGS = Path(__file__).parents[3] / "recordings/conformance"
ROW = ClientRequirements(
    client="x", about="", needs=("chat",), settles={"long prompt": "a limit"}, forgives=("models",)
)


def test_every_client_that_connect_knows_has_a_row_of_real_checks() -> None:
    assert {row.client for row in all_requirements()} == set(CLIENTS)
    for row in all_requirements():
        named = [*row.needs, *row.settles, *row.forgives]
        assert set(named) <= set(CHECKS), row.client
        assert len(named) == len(set(named)), row.client
    assert needed_checks() < set(CHECKS)


@pytest.mark.parametrize(
    ("verdicts", "wanted"),
    [
        ({"chat": "passed", "long prompt": "passed"}, ClientVerdict("x", "works")),
        ({"chat": "passed", "models": "unsupported"}, ClientVerdict("x", "works")),
        ({"chat": "skipped"}, ClientVerdict("x", "works")),
        ({"chat": "passed", "long prompt": "unsupported"}, ClientVerdict("x", "works with settings", ("a limit",))),
        ({"chat": "failed", "long prompt": "failed"}, ClientVerdict("x", "does not", ("chat",))),
        ({"chat": "unsupported"}, ClientVerdict("x", "does not", ("chat",))),
    ],
)
def test_a_client_fares(verdicts: dict[str, str], wanted: ClientVerdict) -> None:
    assert client_verdict(ROW, verdicts) == wanted


def test_recordings_hold_every_check_and_what_it_adds_up_to() -> None:
    files = sorted(RECORDINGS.glob("*.json"))
    assert [file.stem for file in files] == ["llama.cpp", "vllm"]
    for file in files:
        found = json.loads(file.read_text())
        sums = {
            f"for {row.client}": client_verdict(row, {k: v["verdict"] for k, v in found["checks"].items()})
            for row in all_requirements()
        }
        assert set(found["checks"]) == {*CHECKS, *sums}
        for name, sum_ in sums.items():
            assert found["checks"][name]["words"].startswith(sum_.outcome)
