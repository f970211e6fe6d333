"""The page of a real run in a real browser."""

from __future__ import annotations

import os
import re
import struct
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Upright
from tests.engines.test_line import free_port

pytestmark = pytest.mark.engine
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
]


def chromium(tmp_path: Path, *args: str) -> str:
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    done = subprocess.run(["chromium", *FLAGS, profile, *args], capture_output=True, text=True, timeout=90, check=True)
    return done.stdout


def test_the_page_tells_box_model_plan_command_and_proof(
    upright: Upright, llama_server: Path, tiny_model: Path, tmp_path: Path
):
    path = f"{llama_server.parent}:{os.environ['PATH']}"
    done = upright("run", tiny_model, "--context", "1k", "--port", str(free_port()), "--json", PATH=path)
    assert done.returncode == 0, done.stderr
    page = tmp_path / "home/deployments/tiny-kimi/report.html"
    text = page.read_text()
    assert not re.search(r"(src|href)=|url\(|@import|https?://(?!127\.0\.0\.1|github\.com|[\w.]*\])", text), "a request"

    dom = chromium(tmp_path, "--dump-dom", f"file://{page}")
    for heading in ("Box", "Model", "Plan", "Command", "Proof"):
        assert f"<h2>{heading}</h2>" in dom
    for fact in ("tiny-kimi on", "It stands", "--ctx-size 1024", "routed experts", "The capital of France is Paris."):
        assert fact in dom

    picture = tmp_path / "page.png"
    chromium(tmp_path, f"--screenshot={picture}", "--window-size=1000,1400", f"file://{page}")
    content = picture.read_bytes()
    assert struct.unpack(">II", content[16:24]) == (1000, 1400)
    assert len(content) > 40_000, "a blank page compresses to much less"
