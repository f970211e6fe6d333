"""`next:` leads somewhere: no way through the verbs comes back to where it was, by their source and by walking."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from scripts.linting import next_commands
from upright.app.cli.main import cli
from upright.app.cli.verbs import VERBS

STARTS = [
    "",
    "recommend --box 1x-rtx-4090",
    "recommend --box 8x-rtx-pro-6000-server --use batch",
    "plan kimi-k2.6 --box 8x-rtx-pro-6000-server",
    "plan kimi-k2.6 --box 1x-rtx-4090",
    "plan kimi-k2.6 --box 1x-rtx-4090 --ram 768GB",
    "plan gpt-oss-120b --box 1x-rtx-4060",
    "plan deepseek-v4-flash --box 2x-rtx-3090 --engine vllm",
    "plan qwen3.6-27b --box 1x-rtx-4090 --context 1M",
    "render gpt-oss-20b --box 1x-rtx-4090",
    "render kimi-k2.6 --box 1x-rtx-3090",
    "compare gpt-oss-120b --box 1x-rtx-5090 --box 1x-h100",
    "check gpt-oss-20b --box 1x-rtx-4090 --kv-dtype fp8",
    "tools read gpt-oss-20b",
    "explain MLA",
    "catalog list gpus --match 4090",
    "fleet size gpt-oss-120b --box 1x-h100 --users 10",
    "tools engine list --box 1x-rtx-4090",
    "ps",
    "tools store list",
    "catalog list models --match nothing-is-named-so",
]
ACTING = frozenset({"run", "up", "launch", "bench", "demo", "fetch"})
"""There the walk ends: what follows needs an engine, and its ways are those of the source."""


def test_no_way_through_the_source_is_a_circle():
    assert next_commands.circles() == []


def test_the_reading_of_the_source_would_see_one(monkeypatch: pytest.MonkeyPatch):
    """The circle that there was."""
    there = next_commands.edges()
    monkeypatch.setattr(next_commands, "edges", lambda: (*there, next_commands.Next("check", "done", "render")))
    assert ["render", "check", "render"] in next_commands.circles()


def test_every_verb_that_is_named_is_one():
    edges = next_commands.edges()
    assert len(edges) > 70
    assert {word.split()[0] for edge in edges for word in (edge.verb, edge.then)} <= set(VERBS)


@pytest.mark.parametrize("start", STARTS)
def test_who_follows_comes_to_an_end(start: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path))
    typed, passed = shlex.split(start), list[list[str]]()
    while typed is not None and (not typed or typed[0] not in ACTING):
        assert typed not in passed, f"{shlex.join(typed)} again, after {passed}"
        assert len(passed) < 8, passed
        passed.append(typed)
        typed = _next(typed)


def _next(typed: list[str]) -> list[str] | None:
    ended = CliRunner().invoke(cli, typed, prog_name="upright")
    assert ended.exit_code in (0, 1), (typed, ended.output[-500:])
    named = [line for line in ended.output.splitlines() if line.startswith("next: upright")]
    assert len(named) <= 1, (typed, named)
    return shlex.split(named[0].removeprefix("next: upright")) if named else None
