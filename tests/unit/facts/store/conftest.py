from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.facts.store.samples import deployment
from upright.facts import store
from upright.facts.store import DeploymentDir


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def directory() -> DeploymentDir:
    """A deployment with its record and no evidence yet."""
    made = store.create("tiny")
    made.write(deployment(made.name))
    return made
