"""What is said of a fleet follows from its state, and outlives its router."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from upright.facts.records.fleet import Fleet
from upright.flows.fleet import router_api
from upright.flows.fleet.current_status import BoxStatus, FleetStatus
from upright.flows.fleet.directory import FleetDir
from upright.flows.fleet.router_api import RouterPast, look_at_cut_answers, router_past

BOX = BoxStatus("a", "here", "f-a", "ready", 0, True, "ready", "llama.cpp", None, None)
WELL = FleetStatus("f", {"state": "ready"}, (BOX,), None)


@pytest.mark.parametrize(
    ("seen", "wants"),
    [
        (replace(WELL, at_work=True), "time"),
        (replace(WELL, boxes=(replace(BOX, state="starting"),)), "time"),
        (replace(WELL, router={"state": "never started"}), "up"),
        (replace(WELL, boxes=(replace(BOX, state="stopped"),)), "up"),
        (replace(WELL, boxes=(replace(BOX, state="failed"),)), "diagnosis"),
        (replace(WELL, boxes=(replace(BOX, state="starting"), replace(BOX, state="hung"))), "diagnosis"),
        (replace(WELL, left=("f-old",)), "roll"),
        (
            replace(WELL, roll="the last roll was stopped: why", boxes=(replace(BOX, admitted=False),)),
            "roll",
        ),
    ],
)
def test_what_comes_next_follows_from_the_state(seen: FleetStatus, wants: str):
    assert seen.wants == wants


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FleetDir:
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path))
    made = FleetDir("f")
    made.create(Fleet.model_validate({"name": "f", "model": "m", "boxes": [{"name": "a"}]}))
    return made


def test_cut_answers_outlive_the_router(directory: FleetDir, monkeypatch: pytest.MonkeyPatch):
    counts = iter([0, 3, None, 1, 4])
    monkeypatch.setattr(router_api, "cut_answers", lambda fleet: next(counts))
    seen = [look_at_cut_answers(directory.fleet(), directory).cut_answers for _ in range(5)]
    assert seen == [0, 3, 3, 4, 7]
    assert router_past(directory) == RouterPast(0, 3, 4)


@pytest.mark.parametrize("kept", ["", "[]", '{"cut_last": "x"}', '{"what": 1}', '{"cut_last": [1]}', "{" * 5000])
def test_what_was_kept_may_be_damaged(directory: FleetDir, kept: str):
    directory.past_file.write_text(kept)
    assert router_past(directory) == RouterPast()
