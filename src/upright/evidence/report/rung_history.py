"""History of each rung for the recipe that runs, and its strongest evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from upright.facts.records.evidence import Evidence, Observation


@dataclass(frozen=True)
class RungRun:
    """One climb's look at one rung."""

    rung: str
    recipe: str | None
    """`recipe:sha256` of what was running; None in old evidence."""
    observations: tuple[Observation, ...]

    @property
    def at(self) -> str:
        return self.observations[-1].at

    @property
    def passed(self) -> int:
        return sum(seen.verdict == "passed" for seen in self.observations)

    @property
    def verdict(self) -> str:
        verdicts = {seen.verdict for seen in self.observations}
        return next((verdict for verdict in ("failed", "wrong", "passed") if verdict in verdicts), "skipped")


def rung_runs(observations: Iterable[Observation]) -> list[RungRun]:
    """In the order they were made; a check that comes again begins another look."""
    gathered: list[list[Observation]] = []
    checks: set[tuple[str, str | None]] = set()
    for seen in observations:
        check, last = (seen.check, seen.probe), gathered[-1][-1] if gathered else None
        if last is None or (last.rung, last.subject) != (seen.rung, seen.subject) or check in checks:
            gathered.append([])
            checks = set()
        gathered[-1].append(seen)
        checks.add(check)
    return [RungRun(group[0].rung, group[0].subject, tuple(group)) for group in gathered]


def strongest(evidence: Evidence | None, seen: Sequence[RungRun], recipe: str) -> Evidence | None:
    """The last climb's evidence with all that earlier climbs proved of the same recipe, rung by rung."""
    if evidence is None:
        return None
    chosen: dict[str, RungRun] = {}
    for look in seen:
        if look.recipe == recipe and _is_stronger(look, chosen.get(look.rung)):
            chosen[look.rung] = look
    last = {rung: evidence.of(rung) for rung in evidence.rungs if rung not in chosen}
    order = dict.fromkeys((*chosen, *last))
    observations = tuple(
        seen for rung in order for seen in (chosen[rung].observations if rung in chosen else last[rung])
    )
    return evidence.model_copy(update={"observations": observations})


def _is_stronger(look: RungRun, before: RungRun | None) -> bool:
    """A later look counts if it saw as much; and whatever it saw, if a check failed in it."""
    return before is None or look.verdict == "failed" or look.passed >= before.passed
