"""A neighbour on the network: he reaches what the machine opens to it, and answers under names of other machines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, Upright
from upright.base.host import SshHost

NOT_PROMISED = (
    "that a key which is sent over plain http to a host that you named is not seen on the way: use https or ssh",
    "that an engine asks for its key where it never does: /health and /metrics of some answer anybody who reaches them",
)


@pytest.mark.engine
@pytest.mark.promise("an engine answers on loopback only, and to nobody without its key")
def test_a_machine_with_a_network(tmp_path: Path, llama_server: Path, tiny_model: Path):
    """In a network of its own, with an address that neighbours would have."""
    apart = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--net", "--user", "--map-root-user"]
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}",
        "UPRIGHT_LLAMA_SERVER": str(llama_server),
        "UPRIGHT_HOME": str(tmp_path / "home"),
    }
    argv = [*apart, sys.executable, "-m", "tests.hostile.neighbour", str(tiny_model)]
    done = subprocess.run(argv, capture_output=True, text=True, env=environment, timeout=150, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["asked here with the key"] == 200
    assert told["asked here without a key"] == told["asked here with another key"] == 401
    assert told["listens at"] == ["127.0.0.1"]
    assert told["asked from the network"] == "refused"


@pytest.mark.promise("whoever answers under a machine's name without its host key is told nothing")
def test_a_stranger_under_a_name_of_ours(ssh_command: list[str], upright: Upright):
    """ssh's own judgement stands: nothing is said to a host whose key is not known."""
    words = SshHost("box").client("-N")
    assert not [word for word in words if "StrictHostKeyChecking=no" in word or "UserKnownHostsFile=/dev/null" in word]
    done = upright("probe", "ssh:stranger", UPRIGHT_SSH_COMMAND=" ".join(ssh_command))
    assert done.returncode == 2, done.stdout
    assert "Host key verification failed" in done.stderr or "host key" in done.stderr.lower(), done.stderr
