"""Prediction errors of a field test: planned vs measured, by step, worst first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from upright.base.units import format_duration, format_memory, format_tokens
from upright.facts.records.first_hour import FieldFigure, FieldOutcome, FieldTest

_SHOWN_AS_RIGHT = 0.05
"""A figure without a band that is off by less is not called wrong."""


@dataclass(frozen=True)
class StepFigure:
    """One figure, and the step that measured it."""

    step: str
    figure: FieldFigure

    @property
    def wrong(self) -> bool:
        """Outside its band; without one, off by more than a twentieth. Where nothing was planned nothing is wrong."""
        if self.figure.within is not None:
            return not self.figure.within
        return self.figure.error is not None and abs(self.figure.error) > _SHOWN_AS_RIGHT


def figures_by_error(test: FieldTest) -> list[StepFigure]:
    """Every figure, the worst first."""
    figures = [StepFigure(outcome.step, figure) for outcome in test.outcomes for figure in outcome.figures]
    return sorted(figures, key=lambda one: (not one.wrong, -abs(one.figure.error or 0.0)))


def prediction_error_lines(test: FieldTest) -> Iterator[str]:
    """As plain lines: the head, what was wrong, what failed, the claims, what was right."""
    figures = figures_by_error(test)
    wrong = [one for one in figures if one.wrong]
    done = sum(outcome.ending == "done" for outcome in test.outcomes)
    yield "What Upright was wrong about"
    cut = f", {test.interruptions} times cut off" if test.interruptions else ""
    money = f", {test.spent_money:.2f} spent" if test.spent_money is not None else ""
    spent = f"{format_duration(test.spent_seconds)} of {format_duration(test.limit_seconds)}{money}{cut}"
    yield f"{done} of {len(test.steps)} steps done in {spent}"
    yield ""
    yield f"{len(wrong)} of {len(figures)} figures are outside what was planned"
    yield from (f"  {_line(one)}" for one in wrong)
    for ending, head in (("failed", "Steps that failed"), ("not begun", "Steps that were not begun")):
        rest = [outcome for outcome in test.outcomes if outcome.ending == ending]
        if rest:
            yield ""
            yield head
            yield from (f"  {_ended(outcome)}" for outcome in rest)
    if proofs := [outcome for outcome in test.outcomes if outcome.ending == "done" and _left_out(test, outcome)]:
        yield ""
        yield "Not all of it was proved"
        yield from (f"  {_ended(outcome)}" for outcome in proofs)
    yield ""
    yield "Claims"
    yield from (f"  {check.verdict}: {check.claim} ({check.why})" for check in test.checks)
    right = [one for one in figures if not one.wrong]
    if right:
        yield ""
        yield "As planned, or not planned"
        yield from (f"  {_line(one)}" for one in right)


def _left_out(test: FieldTest, outcome: FieldOutcome) -> bool:
    """A proof with a rung that was neither climbed nor failed."""
    return test.step(outcome.step).action == "prove" and any(
        verdict != "passed" for verdict in outcome.answers.values()
    )


def _ended(outcome: FieldOutcome) -> str:
    return f"{outcome.step}: {outcome.why}"


def _line(one: StepFigure) -> str:
    figure = one.figure
    measured = _amount(figure.measured, figure.unit)
    if figure.planned is None:
        return f"{one.step}, {figure.what}: {measured} measured, nothing planned"
    band = ""
    if figure.low is not None and figure.high is not None and figure.low != figure.high:
        low = f"{_amount(figure.low, figure.unit)} to " if figure.low else "at most "
        band = f" ({low}{_amount(figure.high, figure.unit)})"
    off = f", {figure.error:+.0%}" if figure.error is not None else ""
    return f"{one.step}, {figure.what}: {measured} measured, {_amount(figure.planned, figure.unit)} planned{band}{off}"


def _amount(amount: float, unit: str) -> str:
    if unit == "bytes":
        return format_memory(amount)
    if unit == "tokens":
        return f"{format_tokens(round(amount))} tokens"
    if unit == "s":
        return format_duration(amount)
    return f"{amount:,.0f} {unit}" if amount >= 1000 else f"{amount:.3g} {unit}"
