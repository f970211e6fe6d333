"""Does the endpoint keep the protocols that clients rely on: chat completions, responses, messages, connections?"""

from __future__ import annotations

import time
from collections.abc import Callable

from upright.connecting.needs import Needs, all_needs, fares, needed_checks
from upright.errors import EndpointError
from upright.proving.asking import Slot, note
from upright.proving.conformance import anthropic, connections, openai
from upright.proving.conformance.check import TOKENS, Check
from upright.proving.estimating import Cost, is_left_out
from upright.proving.rung import Probe, Rung, Stand
from upright.records.evidence import Observation, Verdict

NAME = "clients"
CHECKS: dict[str, Check] = {**openai.CHECKS, **anthropic.CHECKS, **connections.CHECKS}


def _probes(stand: Stand) -> list[Probe]:
    cost = Cost(prompt_tokens=64, answer_tokens=TOKENS)
    asked = [Probe(name, name, _asking(name, check), cost) for name, check in CHECKS.items()]
    return [*asked, *(Probe(f"for {row.client}", f"for {row.client}", _faring(row)) for row in all_needs())]


def _asking(name: str, check: Check) -> Callable[[Stand], Observation]:
    def asked(stand: Stand) -> Observation:
        slot, begun = Slot(NAME, name, name), time.monotonic()
        try:
            verdict, reason = check(stand)
        except EndpointError as error:
            verdict, reason = ("unsupported" if openai.missing(error) else "failed"), error.message
        if verdict == "failed" and name not in needed_checks():
            verdict = "unsupported"  # said, and no reason to call the deployment broken
        return note(stand, slot, verdict, reason, seconds=time.monotonic() - begun)

    return asked


def _faring(row: Needs) -> Callable[[Stand], Observation]:
    """What the checks before add up to for one client."""

    def fared(stand: Stand) -> Observation:
        slot = Slot(NAME, f"for {row.client}", f"for {row.client}")
        seen = [item for item in stand.observations if item.rung == NAME]
        found = fares(row, {item.check: item.verdict for item in seen})
        left_out = [item.check for item in seen if item.verdict == "skipped" and is_left_out(item.reason)]
        unknown = [check for check in (*row.needs, *row.settles) if check in left_out]
        if unknown and found.outcome != "does not":
            return note(stand, slot, "skipped", f"not known: the budget left out {', '.join(unknown)}")
        words = f"{found.outcome}: {'; '.join(found.words)}" if found.words else found.outcome
        verdict: Verdict = "unsupported" if found.outcome == "does not" else "passed"
        return note(stand, slot, verdict, words)

    return fared


RUNG = Rung(NAME, "the protocols that clients rely on, by raw streams", _probes)
