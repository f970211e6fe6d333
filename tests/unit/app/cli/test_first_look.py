"""`upright` alone: the machine, three models, what runs, what changed, three commands; kept for a day."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.conftest import Upright
from upright.facts import catalog
from upright.flows import first_look
from upright.planning import probing


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """This machine is two RTX 3090; how often it was looked at."""
    looked: list[str] = []

    def box_of(text: str | None = None):
        looked.append("machine")
        return catalog.box_record("2x-rtx-3090")

    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(probing, "box_of", box_of)
    return looked


def test_it_answers_with_the_machine_three_models_and_what_to_type(upright: Upright):
    done = upright()
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert "of RAM" in " ".join(lines[:2])
    assert sum(line.startswith("  upright ") for line in lines) == 3
    assert all(len(line) <= 80 for line in lines)
    assert done.stderr.splitlines()[-1].startswith("next: upright ")
    answer = json.loads(upright("--json").stdout)
    assert set(answer) == {"machine", "three", "running", "changed", "commands"}


def test_it_is_kept_while_machine_and_catalogue_are_the_same(machine: list[str], monkeypatch: pytest.MonkeyPatch):
    first = first_look.first_look()
    assert set(first["three"]) >= {"best", "fast"}
    assert first_look.first_look() == first
    assert len(machine) == 1
    later = time.time() + 2 * 24 * 3600
    monkeypatch.setattr(first_look.time, "time", lambda: later)
    assert first_look.first_look() == first
    assert len(machine) == 2


def test_what_changed_since_last_time_is_said(machine: list[str], monkeypatch: pytest.MonkeyPatch):
    kept = first_look.home() / first_look.KEPT
    first_look.first_look()
    seen = json.loads(kept.read_text())
    seen["of"] = "an older catalogue"
    seen["three"]["best"] |= {"source": "someone/Older-7B", "artifact": "Older-7B"}
    seen["three"]["fast"]["context_tokens"] = 1
    kept.write_text(json.dumps(seen))
    best, fast = first_look.first_look()["changed"]
    assert best.endswith("was Older-7B")
    assert fast.startswith("fast: the plan of")
    assert first_look.first_look()["changed"] == [best, fast]  # until it changes again


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"of": 1}', "\x00", '{"of":' * 10_000])
def test_a_file_that_is_not_ours_is_made_anew(content: str, machine: list[str]):
    first_look.home().mkdir(parents=True)
    (first_look.home() / first_look.KEPT).write_text(content)
    assert first_look.first_look()["changed"] == []
    assert len(machine) == 1


def test_json_stands_behind_a_verb(upright: Upright):
    done = upright("--json", "ps")
    assert done.returncode == 2
    assert "upright ps … --json" in done.stderr
