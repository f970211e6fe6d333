"""A newcomer's minute: scripts/check knows every wing, and a program that is not there skips, but fails in CI."""

from __future__ import annotations

import re
import subprocess
import tomllib

import pytest

from tests.conftest import ROOT
from tests.programs import needs


def check(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([ROOT / "scripts/check", *words], capture_output=True, text=True, check=False)


def test_every_wing_is_known_to_check_and_has_tests() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    wings = check().stdout.split()
    assert wings == sorted(contracts[0]["layers"])
    assert all(list((ROOT / "tests/unit" / wing).rglob("test_*.py")) for wing in wings)


def test_what_check_leaves_to_ci_is_there() -> None:
    left = re.findall(r'^  \[(\w+)\]="(.+)"$', (ROOT / "scripts/check").read_text(), re.MULTILINE)
    assert left
    assert [
        path for wing, paths in left for path in paths.split() if not (ROOT / "tests/unit" / wing / path).exists()
    ] == []


@pytest.mark.parametrize("words", [("attic",), ("facts", "base"), ("",)])
def test_another_word_is_told_what_the_wings_are(words: tuple[str, ...]) -> None:
    done = check(*words)
    assert done.returncode == 2
    assert "one of app base engines" in done.stderr


@pytest.mark.parametrize(("ci", "outcome"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)])
def test_a_missing_program_skips_and_fails_in_ci(
    monkeypatch: pytest.MonkeyPatch, ci: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="no-such-program is missing"):
        needs("no-such-program")
