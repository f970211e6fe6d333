"""Was it rehearsed before its weights were here, and did that go well?

The rehearsal itself is made before a deployment is (`upright tools rehearse`, and `run` while the weights arrive): this
rung tells what it showed. Without one there is nothing to tell.
"""

from __future__ import annotations

from upright.facts.records.evidence import Observation, Verdict
from upright.facts.records.rehearsal import Rehearsal
from upright.facts.store import DeploymentDir, deployments
from upright.proof.ladder.observing import Slot, observation_of
from upright.proof.ladder.rung import LadderRung, Probe, ProofContext

NAME = "rehearse"


def _probes(stand: ProofContext) -> list[Probe]:
    return [Probe("rehearsal", "rehearsal", _look)] if _directory(stand) is not None else []


def _look(stand: ProofContext) -> Observation:
    directory = _directory(stand)
    assert directory is not None
    rehearsal = directory.read(Rehearsal)
    reason = "; ".join(rehearsal.proved) if rehearsal.passed else f"{rehearsal.code or 'it fell'}: {rehearsal.said}"
    verdict: Verdict = "passed" if rehearsal.passed else "failed"
    return observation_of(
        stand, Slot(NAME, "rehearsal", "rehearsal"), verdict, f"by {' and '.join(rehearsal.ways)}: {reason}"
    )


def _directory(stand: ProofContext) -> DeploymentDir | None:
    named = [
        deployment_dir
        for deployment_dir in deployments()
        if deployment_dir.name == stand.target.name and deployment_dir.has(Rehearsal)
    ]
    return named[0] if named and stand.target.deployment is not None else None


RUNG = LadderRung(NAME, "the engine started on the real shapes before its weights were here", _probes)
