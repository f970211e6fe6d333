"""docs/launching.md is executed, with podman and an sshd of our own."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.docs.sessions import run_page, steps


@pytest.mark.engine
def test_the_page_does_what_it_shows(llama_server, llama_image, ssh_command, tiny_model, tmp_path: Path):
    page = ROOT / "docs/launching.md"
    assert len(steps(page)) >= 15
    shutil.copy(tiny_model, tmp_path)
    environment = {
        **llama_image[1],
        "UPRIGHT_HOME": str(tmp_path / "home"),
        "UPRIGHT_SSH_COMMAND": " ".join(ssh_command),
        "PATH": f"{llama_server.parent}:{os.environ['PATH']}",
    }
    complaints = run_page(page, tmp_path, environment)
    assert not complaints, "\n\n".join(complaints)
