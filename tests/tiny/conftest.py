"""The trainer's own modules, and a llama-server with the tiny model for all tests here."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import httpx2
import pytest

from tests.conftest import ROOT
from tests.ports import free_port

TRAINER = ROOT / "scripts/train-tiny"


@pytest.fixture(scope="session")
def trainer() -> Iterator[SimpleNamespace]:
    """The modules that need no torch, by name."""
    sys.path.insert(0, str(TRAINER))
    try:
        import knowledge
        import measure
        import skills
        import template
        import tools

        yield SimpleNamespace(knowledge=knowledge, measure=measure, skills=skills, template=template, tools=tools)
    finally:
        sys.path.remove(str(TRAINER))


@contextlib.contextmanager
def serving(llama_server: Path, model: Path, log: Path, *flags: str) -> Iterator[httpx2.Client]:
    """A llama-server with one slot of the model's whole context."""
    port = free_port()
    argv = [str(llama_server), "-m", str(model), "--port", str(port), "-c", "8704", "-np", "1", "-t", "1", *flags]
    with log.open("w") as output:
        server = subprocess.Popen(argv, stdout=output, stderr=subprocess.STDOUT)
    try:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            _wait(client, server, log)
            yield client
    finally:
        server.terminate()
        server.wait(timeout=20)


def _wait(client: httpx2.Client, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text()[-2000:]
        with contextlib.suppress(httpx2.TransportError):
            if client.get("/health").status_code == 200:
                return
        time.sleep(0.1)
    raise AssertionError(log.read_text()[-2000:])


@pytest.fixture(scope="session")
def llama(llama_server: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    with serving(llama_server, tiny_model, tmp_path_factory.mktemp("llama") / "log") as client:
        yield client
