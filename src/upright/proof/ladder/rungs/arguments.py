"""Does the engine's own parser take the command line?"""

from __future__ import annotations

from upright.base.errors import UprightError
from upright.facts.records.evidence import Observation, Verdict
from upright.proof.ladder.observing import Slot, observation_of
from upright.proof.ladder.rung import LadderRung, Probe, ProofContext
from upright.serving.check import check

NAME = "arguments"


def _probes(stand: ProofContext) -> list[Probe]:
    return [Probe("command line", "command line", _look)]


def _look(stand: ProofContext) -> Observation:
    slot = Slot(NAME, "command line", "command line")
    assert stand.target.recipe is not None
    try:
        judgement = check(stand.target.recipe)
    except UprightError as error:
        return observation_of(stand, slot, "skipped", error.message)
    verdict: Verdict = {"accepted": "passed", "refused": "failed", "unverified": "skipped"}[judgement.verdict]  # type: ignore[assignment]
    reason = "; ".join(f"{refusal.setting}: {refusal.message}".strip(": ") for refusal in judgement.refusals)
    return observation_of(
        stand, slot, verdict, reason or f"{judgement.settings} settings, judged by {judgement.judged_by}"
    )


RUNG = LadderRung(NAME, "the engine's parser takes the command line", _probes, needs_recipe=True)
