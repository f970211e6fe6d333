"""Guessing ahead on the real llama-server: a draft that was trained for it, one that knows nothing, one that harms."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.command import command
from tests.conftest import TINY_DRAFT, TINY_MODEL, Upright
from tests.engines.test_line import answer, box  # noqa: F401 (a fixture)
from tests.ports import free_port
from tests.twins import TWINS

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]
CELLS = ("--cells", "128x1,128x2")


def up(box: Upright) -> dict[str, Any]:  # noqa: F811
    words = ("--context", "1k", "--users", "2", "--port", str(free_port()), "--json")
    made: dict[str, Any] = answer(box("up", TINY_MODEL, *words))
    return made


def words_of_recipe(home: Path) -> str:
    return (home / "deployments/tiny-kimi/recipe.json").read_text()


def test_a_trained_draft_is_judged_cell_by_cell(box: Upright, tmp_path: Path) -> None:  # noqa: F811
    """Whether it wins is the machine's affair; that the verdict follows from the intervals is ours."""
    up(box)
    tried = box("prove", "--only", "smoke", "--speculate", f"draft={TINY_DRAFT}", *CELLS, "--json", timeout=500)
    record = answer(tried)
    (draft,) = record["tried"]
    assert draft["settings"][0] == "--spec-type draft-simple"
    for cell in draft["cells"]:
        output = cell["output"]
        wins, loses = output["low"] > 1, output["high"] < 1
        unsure = "no difference" if output["low"] >= 1 / 1.1 and output["high"] <= 1.1 else "cannot tell"
        assert cell["verdict"] == ("wins" if wins else "loses" if loses else unsure)
        assert 2 <= cell["pairs"] <= 4, "a pair whose cell is marked on a busy machine does not count"
        assert cell["acceptance"] > 0.6
        assert cell["published"] is None, "nobody published a draft model of this kind"
    verdicts = {cell["verdict"] for cell in draft["cells"]}
    pays = "wins" in verdicts and "loses" not in verdicts
    assert draft["outcome"] == ("kept" if pays else "stepped back")
    first, second, third = draft["acceptance_at"]
    assert first >= second >= third > 0.3
    assert draft["drafted_tokens"] > 1000
    assert draft["answers"] > 30
    assert draft["damage"] == []
    assert record["base_pool_tokens"] == draft["pool_tokens"] == 2048
    assert draft["cache_bytes"] / record["base_cache_bytes"] == pytest.approx(1.5), "two layers beside four"
    assert (str(TINY_DRAFT) in words_of_recipe(tmp_path / "home")) == pays
    assert answer(box("ps", "--json"))[0]["state"] == "ready"
    page = box("report", "--markdown", "-o", tmp_path / "page.md")
    assert page.returncode == 0, page.stderr
    assert "Does speculative decoding pay?" in (tmp_path / "page.md").read_text()


@pytest.mark.slow
def test_drafts_that_slow_or_harm_are_taken_back(box: Upright, tmp_path: Path) -> None:  # noqa: F811
    """The same noise twice: verified, it only costs time; accepted unseen, as for a benchmark, it ruins the answers."""
    up(box)
    noise = TWINS["noise"].gguf(tmp_path / "noise.gguf", TINY_DRAFT)
    ways = ("--speculate", f"draft={noise}", "--speculate", f"draft={noise},--spec-synth-len=4")
    tried = box("prove", "--only", "smoke", *ways, *CELLS, "--json", timeout=500)
    slow, harmful = answer(tried)["tried"]
    assert slow["outcome"] == "stepped back"
    assert slow["acceptance"] < 0.05
    assert "acceptance collapsed" in slow["notes"][0]
    assert not any(cell["verdict"] == "wins" for cell in slow["cells"])
    assert slow["damage"] == [], "every guess is verified: a bad draft harms nothing"
    assert harmful["outcome"] == "damages"
    assert len(harmful["damage"]) > 5
    assert {cell["verdict"] for cell in harmful["cells"]} == {"not measurable"}
    assert "--spec-" not in words_of_recipe(tmp_path / "home")
    after = answer(box("prove", "--to", "tools", "--json", timeout=300))
    assert not [seen for seen in after["observations"] if seen["verdict"] == "failed"]
    evidence = (tmp_path / "home/deployments/tiny-kimi/evidence.jsonl").read_text()
    assert evidence.count('"outcome":"stepped back"') == 2


@pytest.mark.slow  # tests/unit/proof/ladder/test_speculating.py undoes one as a kill leaves it
def test_a_trial_that_is_killed_goes_back(box: Upright, tmp_path: Path) -> None:  # noqa: F811
    up(box)
    ours = {"UPRIGHT_HOME": str(tmp_path / "home"), "NO_COLOR": "1"}
    environment = {**os.environ, **ours}
    words = ["prove", "--only", "smoke", "--speculate", f"draft={TINY_DRAFT}", "--cells", "128x1"]
    trial = subprocess.Popen([*command(), *words], env=environment, stderr=subprocess.PIPE, text=True)
    assert trial.stderr is not None
    for line in trial.stderr:
        if line.startswith("  b "):
            break
    os.kill(trial.pid, signal.SIGKILL)
    trial.communicate()
    assert "--spec-type" in words_of_recipe(tmp_path / "home")
    after = box("prove", "--only", "smoke", "--json", timeout=300)
    assert answer(after)["observations"]
    assert "speculation was being tried when that was interrupted: back to the last good recipe" in after.stderr
    assert "--spec-type" not in words_of_recipe(tmp_path / "home")


def test_without_a_candidate_it_says_what_there_is(box: Upright) -> None:  # noqa: F811
    up(box)
    done = box("prove", "--only", "speculation", timeout=300)
    assert done.returncode == 0, done.stderr
    shown = [line.split()[0] for line in done.stdout.partition("--speculate")[2].splitlines()[1:] if line]
    assert {"ngram", "draft=PATH", "eagle3=PATH"} <= set(shown)
    assert done.stderr.splitlines()[-1].startswith("next: upright prove tiny-kimi --to speculation --speculate ngram")
