"""`upright tools store` and the lists, as a person types them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.unit.facts.store.samples import deployment, observation
from upright.app.cli.main import main
from upright.facts import store
from upright.facts.store import DeploymentDir


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


Call = Callable[..., Done]


@pytest.fixture
def upright(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """`upright ARGS...` in this process: many calls, and startup is tested elsewhere."""
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NO_COLOR", "1")

    def call(*args: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["upright", *args])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return Done(int(ended.value.code or 0), said.out, said.err)

    return call


@pytest.fixture
def three(upright: Call) -> list[DeploymentDir]:
    """A sound deployment, one with a changed line, and one whose record is torn."""
    made = []
    for number, name in enumerate(("sound", "changed", "torn")):
        directory = store.create(name)
        record = deployment(name, created_at=f"2026-11-15T00:0{number}:00.000+00:00")
        directory.write(record.model_copy(update={"state": "stopped"}))
        for count in range(3):
            directory.append(observation(count))
        made.append(directory)
    log = made[1].evidence_file
    log.write_bytes(log.read_bytes().replace(b"answer 1", b"answer 9"))
    (made[2].path / "deployment.json").write_text('{"record": "deploym')
    return made


def test_check_says_which_line_and_what(upright: Call, three: list[DeploymentDir]) -> None:
    done = upright("store", "check")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "sound: sound",
        "changed: 1 problem",
        "  problem evidence.jsonl line 2: was changed: it does not fit its digest",
        "torn: 1 problem",
        "  problem deployment.json: is not JSON: Unterminated string starting at: line 1",
        "          column 12 (char 11)",
    ]
    assert done.stderr.splitlines()[-1] == "next: upright tools store repair changed"


def test_check_as_json_names_the_line(upright: Call, three: list[DeploymentDir]) -> None:
    done = upright("store", "check", "changed", str(three[0].path), "--json")
    assert done.returncode == 1
    changed, sound = json.loads(done.stdout)
    assert (changed["name"], changed["sound"]) == ("changed", False)
    assert changed["findings"] == [
        {
            "severity": "problem",
            "code": "changed",
            "file": "evidence.jsonl",
            "line": 2,
            "message": "was changed: it does not fit its digest",
        }
    ]
    assert (sound["name"], sound["sound"], sound["findings"]) == ("sound", True, [])


def test_check_of_a_sound_one_is_yes_and_of_an_unknown_one_misuse(upright: Call, three: list[DeploymentDir]) -> None:
    assert upright("store", "check", "sound").returncode == 0
    done = upright("store", "check", "sonud")
    assert done.returncode == 2
    assert done.stderr == "error: no deployment named sonud\nhint:  did you mean sound?\n"


@pytest.mark.parametrize("verb", [("store", "list"), ("ps",)])
def test_a_torn_record_does_not_hide_the_others(upright: Call, three: list[DeploymentDir], verb: tuple[str]) -> None:
    done = upright(*verb)
    assert done.returncode == 0, done.stderr
    assert "unreadable" in done.stdout
    assert [line.split()[0] for line in done.stdout.splitlines()[1:4]] == ["sound", "changed", "torn"]
    rows = json.loads(upright(*verb, "--json").stdout)
    assert [row["name"] for row in rows] == ["sound", "changed", "torn"]
    assert "is not JSON" in (rows[2].get("problem") or rows[2]["reason"])


def test_repair_sets_the_damaged_log_aside(upright: Call, three: list[DeploymentDir]) -> None:
    done = upright("store", "repair", "changed", "--dry-run")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, "next: upright tools store repair changed")
    assert upright("store", "check", "changed").returncode == 1
    done = upright("store", "repair", "changed")
    assert done.returncode == 0
    assert "evidence.damaged-1.jsonl" in done.stdout
    assert upright("store", "check", "changed").returncode == 0
    done = upright("store", "repair", "torn", "--json")
    assert done.returncode == 1
    assert [finding["code"] for finding in json.loads(done.stdout)["findings"]] == ["unreadable"]


def test_a_group_without_a_verb_shows_its_help(upright: Call) -> None:
    done = upright("tools", "store")
    assert done.returncode == 2
    assert done.stderr.startswith("Usage: upright tools store")


def test_path_is_that_of_the_last_one(upright: Call, three: list[DeploymentDir]) -> None:
    assert upright("store", "path").stdout == f"{three[2].path}\n"
    assert json.loads(upright("store", "path", "sound", "--json").stdout) == {"path": str(three[0].path)}


def test_an_empty_store_is_an_answer(upright: Call) -> None:
    for verb in ("list", "check"):
        done = upright("store", verb)
        assert (done.returncode, done.stdout) == (0, "no deployments\n")
        assert done.stderr.splitlines()[-1] == f"next: upright {'recommend' if verb == 'list' else 'ps'}"
    assert upright("store", "path").returncode == 2
