"""Real clients from npm and PyPI on a real vLLM with the tiny model: what `connect` said of each is what came."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.conftest import Upright
from tests.engines.test_real_clients import CONTEXT, asked_of_each, documented
from tests.ports import free_port
from tests.vllm.conftest import know_the_model
from upright.facts.store import DeploymentDir

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("npm") is None, reason="the clients come from npm"),
]


@pytest.mark.timeout(2400)
def test_what_connect_says_of_real_clients_is_what_comes(
    vllm_box: Upright, tiny_checkpoint: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    know_the_model(home)
    up = vllm_box("up", tiny_checkpoint, "--context", CONTEXT, "--port", str(free_port()), "--json")
    assert up.returncode == 0, up.stderr
    deployed = DeploymentDir(home / "deployments" / json.loads(up.stdout)["name"])
    assert asked_of_each(deployed, tmp_path) == documented("### On vLLM")
