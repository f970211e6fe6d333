"""The records of one deployment, as a page wants them."""

from __future__ import annotations

from dataclasses import dataclass

from upright.evidence.report.rung_history import RungRun, strongest
from upright.facts.records.benchmark import Benchmark
from upright.facts.records.box import Box
from upright.facts.records.deployment import Deployment
from upright.facts.records.diagnosis import Attempts
from upright.facts.records.evidence import Evidence
from upright.facts.records.model import Model
from upright.facts.records.plan import Plan
from upright.facts.records.recipe import Recipe
from upright.facts.records.residuals import Residuals
from upright.facts.records.speculation import Speculation


@dataclass(frozen=True)
class Subject:
    """What a page is about: the records of one deployment."""

    box: Box
    model: Model
    plan: Plan
    recipe: Recipe
    deployment: Deployment
    evidence: Evidence | None
    benchmarks: tuple[Benchmark, ...] = ()
    attempts: Attempts | None = None
    residuals: Residuals | None = None
    speculation: Speculation | None = None
    earlier_trials: tuple[Speculation, ...] = ()
    """Trials of speculative decoding before that one, in order."""
    looks: tuple[RungRun, ...] = ()
    """Every climb's look at each rung, in order."""

    @property
    def proof(self) -> Evidence | None:
        """The strongest evidence of each rung for the recipe that runs."""
        return strongest(self.evidence, self.looks, self.recipe.reference)
