"""Claude Code, from npm, on a real llama-server: what its next turn and its next conversation find in the cache."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Upright
from tests.engines.test_real_clients import CONTEXT, environment, shown
from tests.ports import free_port
from tests.programs import made_by
from upright.facts.records.deployment import Deployment
from upright.facts.store import DeploymentDir
from upright.proof.benchmark.prefix_watch import PrefixWatch
from upright.proof.benchmark.recording_proxy import recording_proxy
from upright.proof.benchmark.trace_recorder import TraceRecorder
from upright.serving.connect import connect

pytestmark = [
    pytest.mark.engine,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(shutil.which("npm") is None, reason="the client comes from npm"),
]
HEADER = "CLAUDE_CODE_ATTRIBUTION_HEADER"
TASKS = (["-p", "What is the capital of France?"], ["--continue", "-p", "And of Spain?"], ["-p", "Add 2 and 3."])
"""A conversation, its next turn (with the calls of tools that the tiny model may make), and another one."""


@pytest.fixture
def deployed(upright: Upright, llama_server: Path, tiny_model: Path, tmp_path: Path) -> Iterator[DeploymentDir]:
    path = f"{llama_server.parent}:{os.environ['PATH']}"
    up = upright("up", tiny_model, "--context", CONTEXT, "--port", str(free_port()), PATH=path)
    assert up.returncode == 0, up.stderr
    yield DeploymentDir(next((tmp_path / "home/deployments").iterdir()))
    assert upright("down").returncode == 0


class Counted(PrefixWatch):
    """Of each answered prompt: its tokens, and those that were cached."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.counts: list[tuple[int, int]] = []
        super().__init__(self.told.append)

    def ended(self, departure, prompt, cached):
        self.counts.append((prompt, cached))
        super().ended(departure, prompt, cached)


def _worked(deployed: DeploymentDir, folder: Path, header: str | None) -> Counted:
    """The three tasks by way of the recorder, as `connect` sets the client up, but for the header if it is given."""
    record, watch, person = deployed.read(Deployment), Counted(), folder / "person"
    for made in (person, folder / "work"):
        made.mkdir(parents=True)
    settings = connect(record, deployed.key_file, "claude-code")
    assert settings.environment[HEADER] == "0"
    with recording_proxy(record.base_url, TraceRecorder(), watch=watch) as address:
        variables = environment(settings, deployed.key(), person, str(made_by("get-clients")))
        variables |= {"ANTHROPIC_BASE_URL": address} | ({HEADER: header} if header else {})
        for task in TASKS:
            shown(["claude", "--bare", *task], variables, folder / "work")
    return watch


def test_another_conversation_finds_the_system_prompt(deployed: DeploymentDir, tmp_path: Path) -> None:
    ours = _worked(deployed, tmp_path / "ours", None)
    assert not ours.told, "with our settings nothing departs"
    (first, _), (second, kept), *_, (other, shared) = ours.counts
    assert first <= kept <= second, "the next turn finds all that was read"
    assert other - shared < 100, "another conversation is read from its own words on"

    with_header = _worked(deployed, tmp_path / "header", "1")
    assert with_header.told, "each conversation has a mark of its own"
    for line in with_header.told:
        assert re.search(r"departs from an earlier one at character \d+ of the system prompt", line)
        assert f"{HEADER}=0 leaves it out" in line
    other_with, shared_with = with_header.counts[-1]
    assert other_with - shared_with > 2 * (other - shared)
    print(f"{with_header.told[-1]}\n{ours.counts} {ours.summary()}\n{with_header.counts} {with_header.summary()}")
