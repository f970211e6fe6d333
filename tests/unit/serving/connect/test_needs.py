"""What clients need: rows that name real checks and real clients, and how a client fares with what was found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from upright.proof.ladder.rungs.clients import CHECKS
from upright.serving.connect.clients import CLIENTS
from upright.serving.connect.needs import Fares, Needs, all_needs, fares, needed_checks

RECORDINGS = Path(__file__).parents[3] / "recordings/conformance"
ROW = Needs(client="x", about="", needs=("chat",), settles={"long prompt": "a limit"}, forgives=("models",))


def test_every_client_that_connect_knows_has_a_row_of_real_checks() -> None:
    assert {row.client for row in all_needs()} == set(CLIENTS)
    for row in all_needs():
        named = [*row.needs, *row.settles, *row.forgives]
        assert set(named) <= set(CHECKS), row.client
        assert len(named) == len(set(named)), row.client
    assert needed_checks() < set(CHECKS)


@pytest.mark.parametrize(
    ("verdicts", "wanted"),
    [
        ({"chat": "passed", "long prompt": "passed"}, Fares("x", "works")),
        ({"chat": "passed", "models": "unsupported"}, Fares("x", "works")),
        ({"chat": "skipped"}, Fares("x", "works")),
        ({"chat": "passed", "long prompt": "unsupported"}, Fares("x", "works with settings", ("a limit",))),
        ({"chat": "failed", "long prompt": "failed"}, Fares("x", "does not", ("chat",))),
        ({"chat": "unsupported"}, Fares("x", "does not", ("chat",))),
    ],
)
def test_a_client_fares(verdicts: dict[str, str], wanted: Fares) -> None:
    assert fares(ROW, verdicts) == wanted


def test_recordings_hold_every_check_and_what_it_adds_up_to() -> None:
    files = sorted(RECORDINGS.glob("*.json"))
    assert [file.stem for file in files] == ["llama.cpp", "vllm"]
    for file in files:
        found = json.loads(file.read_text())
        sums = {
            f"for {row.client}": fares(row, {k: v["verdict"] for k, v in found["checks"].items()})
            for row in all_needs()
        }
        assert set(found["checks"]) == {*CHECKS, *sums}
        for name, sum_ in sums.items():
            assert found["checks"][name]["words"].startswith(sum_.outcome)
