"""Was it rehearsed before its weights were here, and did that go well?

The rehearsal itself is made before a deployment is (`upright rehearse`, and `run` while the weights arrive): this rung
tells what it showed. Without one there is nothing to tell.
"""

from __future__ import annotations

from upright.proving.asking import Slot, note
from upright.proving.rung import Probe, Rung, Stand
from upright.records.evidence import Observation, Verdict
from upright.records.rehearsal import Rehearsal
from upright.store import DeploymentDir, deployments

NAME = "rehearse"


def _probes(stand: Stand) -> list[Probe]:
    return [Probe("rehearsal", "rehearsal", _look)] if _directory(stand) is not None else []


def _look(stand: Stand) -> Observation:
    directory = _directory(stand)
    assert directory is not None
    found = directory.read(Rehearsal)
    said = "; ".join(found.proved) if found.passed else f"{found.code or 'it fell'}: {found.said}"
    verdict: Verdict = "passed" if found.passed else "failed"
    return note(stand, Slot(NAME, "rehearsal", "rehearsal"), verdict, f"by {' and '.join(found.ways)}: {said}")


def _directory(stand: Stand) -> DeploymentDir | None:
    named = [each for each in deployments() if each.name == stand.target.name and each.has(Rehearsal)]
    return named[0] if named and stand.target.deployment is not None else None


RUNG = Rung(NAME, "the engine started on the real shapes before its weights were here", _probes)
