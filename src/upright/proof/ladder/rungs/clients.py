"""Does the endpoint keep the protocols that clients rely on: chat completions, responses, messages, connections?"""

from __future__ import annotations

import time
from collections.abc import Callable

from upright.base.errors import EndpointError
from upright.facts.records.evidence import Observation, Verdict
from upright.proof.ladder.conformance import anthropic, connections, openai
from upright.proof.ladder.conformance.check import TOKENS, Check
from upright.proof.ladder.estimating import ProbeCost, is_left_out
from upright.proof.ladder.observing import Slot, observation_of
from upright.proof.ladder.rung import LadderRung, Probe, ProofContext
from upright.serving.connect.requirements import ClientRequirements, all_requirements, client_verdict, needed_checks

NAME = "clients"
CHECKS: dict[str, Check] = {**openai.CHECKS, **anthropic.CHECKS, **connections.CHECKS}


def _probes(stand: ProofContext) -> list[Probe]:
    cost = ProbeCost(prompt_tokens=64, answer_tokens=TOKENS)
    asked = [Probe(name, name, _asking(name, check), cost) for name, check in CHECKS.items()]
    return [*asked, *(Probe(f"for {row.client}", f"for {row.client}", _faring(row)) for row in all_requirements())]


def _asking(name: str, check: Check) -> Callable[[ProofContext], Observation]:
    def asked(stand: ProofContext) -> Observation:
        slot, begun = Slot(NAME, name, name), time.monotonic()
        try:
            verdict, reason = check(stand)
        except EndpointError as error:
            verdict, reason = ("unsupported" if openai.missing(error) else "failed"), error.message
        if verdict == "failed" and name not in needed_checks():
            verdict = "unsupported"  # said, and no reason to call the deployment broken
        return observation_of(stand, slot, verdict, reason, seconds=time.monotonic() - begun)

    return asked


def _faring(row: ClientRequirements) -> Callable[[ProofContext], Observation]:
    """What the checks before add up to for one client."""

    def fared(stand: ProofContext) -> Observation:
        slot = Slot(NAME, f"for {row.client}", f"for {row.client}")
        seen = [observation for observation in stand.observations if observation.rung == NAME]
        standing = client_verdict(row, {observation.check: observation.verdict for observation in seen})
        left_out = [
            observation.check
            for observation in seen
            if observation.verdict == "skipped" and is_left_out(observation.reason)
        ]
        unknown = [check for check in (*row.needs, *row.settles) if check in left_out]
        if unknown and standing.outcome != "does not":
            return observation_of(stand, slot, "skipped", f"not known: the budget left out {', '.join(unknown)}")
        reason = f"{standing.outcome}: {'; '.join(standing.words)}" if standing.words else standing.outcome
        verdict: Verdict = "unsupported" if standing.outcome == "does not" else "passed"
        return observation_of(stand, slot, verdict, reason)

    return fared


RUNG = LadderRung(NAME, "the protocols that clients rely on, by raw streams", _probes)
