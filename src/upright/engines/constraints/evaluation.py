"""Which constraints a situation breaks: refused, or a warning."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from upright.base.errors import EngineError
from upright.engines.constraints.situation import Scalar, Situation, recipe_situation
from upright.engines.constraints.start_code import refused_start
from upright.facts.catalog import constraints, versions
from upright.facts.catalog.rows.constraint import ConstraintRow, Demand, When
from upright.facts.records.recipe import Recipe


class Breach(NamedTuple):
    """A constraint that is not kept."""

    row: ConstraintRow
    fact: Scalar
    """What stands where the row wants something else."""

    @property
    def refused(self) -> bool:
        return self.row.refuses

    @property
    def asked(self) -> bool:
        """Whether the engine said so itself: then it is no row that can be looked up."""
        return self.row.id == f"{self.row.engine}-start-code"

    @property
    def sentence(self) -> str:
        said = f"{self.row.title}: {self.row.about.rstrip('.')}"
        return said if self.asked else f"{said} (constraints/{self.row.id})"


def breaches(situation: Situation, among: Iterable[ConstraintRow] | None = None) -> tuple[Breach, ...]:
    """What is not kept, the refused ones first; of these rows, where somebody has looked before.

    What a row of ours says first, in its own words, the engine need not say again.
    """
    broken = [_breach(row, situation) for row in (constraints(situation.engine) if among is None else among)]
    if not any(breach and breach.refused for breach in broken) and (said := refused_start(situation)):
        broken.append(Breach(said, situation.fact(said.demand.fact)))
    return tuple(sorted((breach for breach in broken if breach), key=lambda breach: not breach.refused))


def refuse_breaches(recipe: Recipe) -> None:
    """EngineError if an engine's own constraint forbids this recipe."""
    situation = recipe_situation(recipe)
    refused = [breach for breach in breaches(situation) if breach.refused] if situation else []
    if refused:
        first = refused[0].row
        raise EngineError(
            f"{recipe.engine} {recipe.engine_version or ''} would not stand like this: {breach_summary(refused)}",
            hint=first.instead.rstrip(".") + ("" if refused[0].asked else f"; upright explain {first.id}"),
        )


def breach_notes(recipe: Recipe) -> tuple[str, ...]:
    """What is allowed and unwise, each in a sentence."""
    situation = recipe_situation(recipe)
    if situation is None:
        return ()
    return tuple(f"{breach.sentence}. {breach.row.instead}" for breach in breaches(situation) if not breach.refused)


def breach_summary(broken: Iterable[Breach]) -> str:
    return "; ".join(breach.sentence for breach in broken)


def _breach(row: ConstraintRow, situation: Situation) -> Breach | None:
    if not applies(row.when, situation):
        return None
    fact = situation.fact(row.demand.fact)
    kept = keeps(row.demand, fact)
    if kept is None or kept != row.negative:
        return None
    return Breach(row, fact)


def relevant_constraints(situation: Situation) -> tuple[ConstraintRow, ...]:
    """The rows of its engine that speak of such a box, model and build, whatever a plan settles."""
    return tuple(row for row in constraints(situation.engine) if _concerns(row.when, situation))


def applies(when: When, situation: Situation) -> bool:
    """Whether the row speaks of this. What is not known, no row speaks of."""
    return _concerns(when, situation) and (
        _any(when.cache_types, (situation.fact("cache_type"),))
        and _any(when.backends, (situation.fact("backend"),))
        and all(_larger(situation.fact(name), bound) for name, bound in when.more_than.items())
    )


def _concerns(when: When, situation: Situation) -> bool:
    about = situation.circumstances
    return (
        _inside(situation.version, when.versions)
        and _inside(about.compute_capability, when.compute_capability)
        and _any(when.attention, about.attention)
        and _any(when.architectures, (about.architecture,))
        and _any(when.models, (about.model,))
        and _any(when.artifacts, (about.artifact,))
        and _any(when.formats, (about.expert_format,))
        and _any(when.thinking, (about.thinking,))
        and when.block in (None, about.expert_block)
        and when.unified_memory in (None, about.unified_memory)
        and when.gpus in (None, about.box_gpus > 0)
        and when.without_patch not in about.patches
        and _any(when.images, (about.image,))
        and not (when.upstream and about.image)
    )


def keeps(demand: Demand, fact: Scalar) -> bool | None:
    """Whether the fact is as demanded; None if it is not known."""
    if fact is None:
        return None
    if isinstance(fact, frozenset):
        return bool(fact.intersection(demand.one_of))
    if demand.one_of:
        return str(fact) in demand.one_of
    if demand.true is not None:
        return bool(fact) is demand.true
    if isinstance(fact, str):
        return None
    if demand.at_most is not None:
        return fact <= demand.at_most
    if demand.at_least is not None:
        return fact >= demand.at_least
    return demand.multiple_of is not None and fact % demand.multiple_of == 0


def _inside(version: str | None, wanted: str) -> bool:
    if wanted == "*":
        return True
    return version is not None and versions.in_range(version, wanted)


def _any(wanted: tuple[str, ...], there: Iterable[object]) -> bool:
    return not wanted or any(name in wanted for name in there)


def _larger(fact: Scalar, bound: float) -> bool:
    return isinstance(fact, int | float) and fact > bound
