"""Where a deployment's engine is: here, or on the machine that it names."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

import pytest

from upright.facts.records.deployment import Deployment
from upright.facts.store import DeploymentDir
from upright.serving.launch.places import LocalPlace, SshPlace, place_of

FACTS = MappingProxyType(
    {
        "name": "d", "state": "ready", "engine": "llama.cpp", "engine_version": None, "served_name": "m",
        "base_url": "http://127.0.0.1:1", "context_tokens": 1024, "created_at": "2026-01-01T00:00:00Z",
        "changed_at": "2026-01-01T00:00:00Z",
    }
)  # fmt: skip


@pytest.mark.parametrize(("machine", "kind"), [(None, LocalPlace), ("alpha", SshPlace)])
def test_the_machine_decides(machine: str | None, kind: type, tmp_path: Path) -> None:
    deployment = Deployment.model_validate({**FACTS, "machine": machine})
    assert isinstance(place_of(deployment, DeploymentDir(tmp_path)), kind)
