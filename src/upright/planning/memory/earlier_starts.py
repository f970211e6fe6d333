"""Overheads measured at earlier starts on this box, instead of the catalogue's.

A measurement holds for its box, engine and version. Spread, draft and model must be the same for a figure to be taken
as it is: one start then predicts the pools of other settings within 1 % (published builds; tests/accuracy). Of another
model it moves the best figure and keeps the catalogue's band.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from upright.base.units import GIB
from upright.facts.catalog.rows.memory import Band, OverheadRow
from upright.facts.records.box import Box
from upright.facts.records.plan import Note, Parallel, Plan
from upright.facts.records.residuals import Residual, Residuals
from upright.planning.memory.overhead import RESTART_SPREAD

MEASURED_TERMS = ("runtime", "graphs", "compute", "process")
"""Terms that a plan takes from a start; weights and cache are arithmetic."""
# Of the predicted pool, when everything beside weights and cache was measured on this box: 0.8 % at most over the
# published builds that report several settings.
CALIBRATED_POOL = Band(low=0.99, best=1.0, high=1.01)


@dataclass(frozen=True)
class EarlierStart:
    """What one start teaches for one plan."""

    residuals: Residuals
    same_model: bool
    same_sharing: bool
    """Whether as many ranks shared the cache: CUDA graphs differ otherwise."""

    @property
    def source(self) -> str:
        return f"measured on {self.residuals.deployment}, {self.residuals.at[:10]}"

    @property
    def scratch(self) -> Residual | None:
        """The largest compute buffer, of the same model; other models' graphs are other graphs."""
        return self._largest("compute") if self.same_model else None

    def row(self, row: OverheadRow) -> OverheadRow:
        """The row as this box teaches it; the catalogue's own where it teaches nothing."""
        if row.term == "pool-band":
            return self._band(row)
        if row.term == "draft" and self._gib("runtime") is not None:
            return row.model_copy(update={"gib": Band(low=0, best=0, high=0), "why": f"in the runtime, {self.source}"})
        if row.term == "graphs" and not self.same_sharing:
            return row
        band = self._gib(row.term)
        if band is None or row.gib is None:
            return row
        if not self.same_model:
            band = Band(low=min(band.low, row.gib.low), best=band.best, high=max(band.high, row.gib.high))
        return row.model_copy(update={"gib": band, "basis": "measured", "why": self.source})

    def taught(self, plan: Plan) -> tuple[str, ...]:
        """Terms of the plan that this start decided."""
        return tuple(dict.fromkeys(line.term for line in plan.ledger if self.source in line.why))

    def _band(self, row: OverheadRow) -> OverheadRow:
        counted = any(line.term == "graphs" and "graphs" in line.of for line in self.residuals.lines)
        known = self._gib("runtime") and (not counted or (self.same_sharing and self._gib("graphs")))
        if not (self.same_model and known):
            return row
        return row.model_copy(update={"share": CALIBRATED_POOL, "adds_terms": False, "why": self.source})

    def _gib(self, term: str) -> Band | None:
        line = self._largest(term)
        if line is None or line.measured_bytes.value is None:
            return None
        low, high = line.measured_low_bytes or 0, line.measured_high_bytes or 0
        more = self._weights_above() if term == "runtime" else 0
        best = float(line.measured_bytes.value)
        return Band(
            low=max(0.0, low * (1 - RESTART_SPREAD) + more) / GIB,
            best=max(0.0, best + more) / GIB,
            high=max(0.0, high * (1 + RESTART_SPREAD) + more) / GIB,
        )

    def _weights_above(self) -> int:
        """Weights that the plan does not count, such as a draft's: the pool is short of them too."""
        differences = [line.difference_bytes for line in self.residuals.lines if line.term == "weights"]
        return max((difference for difference in differences if difference is not None), default=0)

    def _largest(self, term: str) -> Residual | None:
        """The device that took most: plans are the same for all, so the worst must fit."""
        measured_lines = [
            line for line in self.residuals.lines if line.term == term and line.measured_bytes.value is not None
        ]
        return max(measured_lines, key=lambda line: line.measured_bytes.value or 0, default=None)


@dataclass(frozen=True)
class EarlierStarts:
    """Earlier starts of one engine on one box, newest first."""

    here: tuple[Residuals, ...] = ()
    """Of this version."""
    other_versions: tuple[str, ...] = ()
    """Versions that were measured while this one was not."""

    def learned(self, model: str, parallel: Parallel | None, *, draft: bool) -> EarlierStart | None:
        """The newest start with the same spread and draft, one of the same model before others."""
        fitting = [
            residuals
            for residuals in self.here
            if residuals.draft == draft and (parallel is None or _spread(residuals.parallel) == _spread(parallel))
        ]
        if not fitting:
            return None
        best = next((residuals for residuals in fitting if residuals.model == model), fitting[0])
        sharing = parallel is None or best.parallel.decode_context == parallel.decode_context
        return EarlierStart(best, best.model == model, sharing)

    def noted(self, plan: Plan) -> Plan:
        """The plan, which says what it took from measurements, or why it took nothing."""
        learned = self.learned(plan.model, plan.parallel, draft=plan.goal.draft)
        if learned is not None and (terms := learned.taught(plan)):
            term_names = ", ".join(terms)
            message = (
                f"{term_names}: {learned.source} with {plan.engine} {plan.engine_version}, not the catalogue's figures"
            )
            return _with(plan, Note(code="measured", message=message, remedy="--no-measured ignores it"))
        if self.other_versions:
            versions = ", ".join(self.other_versions)
            asked = plan.engine_version or "this version"
            message = (
                f"this box was measured with {plan.engine} {versions}, not with {asked}: "
                "the catalogue's figures are used"
            )
            return _with(plan, Note(code="not-measured", message=message, remedy="start it once: upright up"))
        return plan


def earlier_starts(measured: Iterable[Residuals], box: Box, engine: str, version: str | None) -> EarlierStarts:
    identity = box.identity
    matching = [record for record in measured if record.box_identity == identity and record.engine == engine]
    matching.sort(key=lambda record: record.at, reverse=True)
    here = tuple(record for record in matching if record.engine_version == version)
    others = () if here else tuple(dict.fromkeys(record.engine_version or "unknown" for record in matching))
    return EarlierStarts(here, others)


def _spread(parallel: Parallel) -> tuple[int, int]:
    return parallel.tensor, parallel.pipeline


def _with(plan: Plan, note: Note) -> Plan:
    return plan.model_copy(update={"notes": (*plan.notes, note)})
