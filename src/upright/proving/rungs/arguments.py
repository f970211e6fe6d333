"""Does the engine's own parser take the command line?"""

from __future__ import annotations

from upright.checking import check
from upright.errors import UprightError
from upright.proving.asking import Slot, note
from upright.proving.rung import Probe, Rung, Stand
from upright.records.evidence import Observation, Verdict

NAME = "arguments"


def _probes(stand: Stand) -> list[Probe]:
    return [Probe("command line", "command line", _look)]


def _look(stand: Stand) -> Observation:
    slot = Slot(NAME, "command line", "command line")
    assert stand.target.recipe is not None
    try:
        found = check(stand.target.recipe)
    except UprightError as error:
        return note(stand, slot, "skipped", error.message)
    verdict: Verdict = {"accepted": "passed", "refused": "failed", "unverified": "skipped"}[found.verdict]  # type: ignore[assignment]
    said = "; ".join(f"{each.setting}: {each.message}".strip(": ") for each in found.refusals)
    return note(stand, slot, verdict, said or f"{found.settings} settings, judged by {found.judged_by}")


RUNG = Rung(NAME, "the engine's parser takes the command line", _probes, needs_recipe=True)
