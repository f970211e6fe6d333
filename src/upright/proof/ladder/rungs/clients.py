"""Does the endpoint keep the protocols that clients rely on: chat completions, responses, messages, connections?"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from upright.base.errors import EndpointError
from upright.facts.records.evidence import Observation, Verdict
from upright.proof.ladder.conformance import anthropic, connections, openai
from upright.proof.ladder.conformance.check import TOKENS, Check
from upright.proof.ladder.estimating import ProbeCost
from upright.proof.ladder.observing import Slot, observation_of
from upright.proof.ladder.rung import LadderRung, Probe, ProofContext
from upright.serving.connect import CLIENTS
from upright.serving.connect.client_trial import CHARACTERS_A_TOKEN, ClientTrial, tried
from upright.serving.connect.first_requests import ANSWER_TOKENS, first_request
from upright.serving.connect.requirements import ClientRequirements, all_requirements, client_verdict, needed_checks
from upright.serving.connect.served_model import ServedModel

NAME = "clients"
CHECKS: dict[str, Check] = {**openai.CHECKS, **anthropic.CHECKS, **connections.CHECKS}


def _probes(stand: ProofContext) -> list[Probe]:
    cost = ProbeCost(prompt_tokens=64, answer_tokens=TOKENS)
    asked = [Probe(name, name, _asking(name, check), cost) for name, check in CHECKS.items()]
    return [*asked, *(_for_client(row, stand) for row in all_requirements())]


def _for_client(row: ClientRequirements, stand: ProofContext) -> Probe:
    """What its first request costs, if that was measured and is not too large to be sent."""
    name, tokens = f"for {row.client}", (first_request(row.client).characters or 0) // CHARACTERS_A_TOKEN
    sent = 0 < tokens < (stand.target.context_tokens or 0)
    return Probe(name, name, _faring(row), ProbeCost(tokens, ANSWER_TOKENS) if sent else ProbeCost())


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
    """What the checks before add up to for one client, and its own first request."""

    def fared(stand: ProofContext) -> Observation:
        slot, begun = Slot(NAME, f"for {row.client}", f"for {row.client}"), time.monotonic()
        seen = [observation for observation in stand.observations if observation.rung == NAME]
        verdicts = {observation.check: observation.verdict for observation in seen}
        standing = client_verdict(row, verdicts)
        left_out = [observation.check for observation in seen if observation.left_out]
        unknown = [check for check in (*row.needs, *row.settles) if check in left_out]
        if unknown and standing.outcome != "does not":
            return observation_of(stand, slot, "skipped", f"not known: the budget left out {', '.join(unknown)}")
        outcome, words = standing.outcome, standing.words
        if outcome != "does not" and stand.target.context_tokens is not None:
            trial = _tried(stand, row, stand.target.context_tokens, verdicts)
            outcome, words = (outcome, words) if trial.works else ("does not", (*trial.why, *trial.advice))
        reason = f"{outcome}: {'; '.join(words)}" if words else outcome
        verdict: Verdict = "unsupported" if outcome == "does not" else "passed"
        return observation_of(stand, slot, verdict, reason, seconds=time.monotonic() - begun)

    return fared


def _tried(stand: ProofContext, row: ClientRequirements, context: int, verdicts: Mapping[str, str]) -> ClientTrial:
    """As `connect` and `launch` try it."""
    endpoint = stand.endpoint
    served = ServedModel(stand.target.name, endpoint.base_url, endpoint.model, "", context)
    try:
        return tried(endpoint, CLIENTS[row.client](served), verdicts)
    except EndpointError as error:
        return ClientTrial(works=False, why=(f"its first request was not answered: {error.message}",))


RUNG = LadderRung(NAME, "the protocols that clients rely on, by raw streams", _probes)
