"""A scheduled server in a child, once for all of the room; and a place for cells."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from upright.facts.store import DeploymentDir
from upright.proof.benchmark.scheduled_server import Schedule, command
from upright.proof.benchmark.selftest import scheduled


@pytest.fixture(scope="session", autouse=True)
def _children_find_the_tests() -> Iterator[None]:
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = f"{ROOT}:{ROOT / 'src'}"
    yield
    if before is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = before


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    """First token after 50 ms, then one every 5 ms."""
    with scheduled(command(Schedule(ttft_seconds=0.05, itl_seconds=0.005))) as address:
        yield address


@pytest.fixture
def place(tmp_path: Path) -> DeploymentDir:
    return DeploymentDir(tmp_path)
