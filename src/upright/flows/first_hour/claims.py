"""The README's claims of what never ran on a GPU: held, wrong or not judged by a field test.

Nothing is held that no step tried, and one step that shows otherwise is enough for wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Literal

from upright.base.units import GB
from upright.base.yaml12 import from_yaml
from upright.facts.records.base import Part
from upright.facts.records.first_hour import FieldAction, FieldCheck, FieldFigure, FieldOutcome, FieldStep, FieldTest

HUNDREDS_OF_GIGABYTES = 100 * GB
NO_GPU = "this box has no GPU"
JudgedBy = Literal["engines", "recipes", "memory", "speed", "kernels", "weights", "clients", "nothing"]
Tried = tuple[FieldStep, FieldOutcome]


class ClaimRow(Part):
    """One line of the table, and what judges it."""

    claim: str
    """As the README has it."""
    judged_by: JudgedBy
    """Which outcomes decide."""
    engines: tuple[str, ...] = ()
    """Of a claim about engines: all of them must be tried."""
    why_not: str = ""
    """Of a claim that no step judges."""


@cache
def claims() -> tuple[ClaimRow, ...]:
    rows = from_yaml(files("upright.flows.first_hour").joinpath("claims.yaml").read_text("utf-8"))
    return tuple(ClaimRow.model_validate(row) for row in rows)


def checks(test: FieldTest) -> tuple[FieldCheck, ...]:
    return tuple(_check(row, test) for row in claims())


def _check(row: ClaimRow, test: FieldTest) -> FieldCheck:
    if row.judged_by == "nothing":
        return _unjudged(row, row.why_not)
    if not test.gpus:
        return _unjudged(row, NO_GPU)
    return _JUDGES[row.judged_by](row, test)


def _engines(row: ClaimRow, test: FieldTest) -> FieldCheck:
    tried = _tried(test, "start", "prove", "bench")
    if failed := _failed(tried, row.engines):
        return failed_check(row, failed)
    by_engine = {engine: [step.name for step, _ in tried if step.engine == engine] for engine in row.engines}
    missing = [engine for engine, names in by_engine.items() if not names]
    done = "; ".join(name for names in by_engine.values() for name in names)
    if missing:
        rest = f"; held: {done}" if done else ""
        return _unjudged(row, f"{', '.join(missing)} {'was' if len(missing) == 1 else 'were'} not tried{rest}")
    return _held(row, done)


def _recipes(row: ClaimRow, test: FieldTest) -> FieldCheck:
    starts = _tried(test, "start")
    if failed := _failed(starts):
        return failed_check(row, failed)
    return _held(row, "; ".join(step.name for step, _ in starts)) if starts else _unjudged(row, "no engine was started")


def _figures(action: FieldAction, units: Sequence[str]) -> Callable[[ClaimRow, FieldTest], FieldCheck]:
    def judge(row: ClaimRow, test: FieldTest) -> FieldCheck:
        figures = [
            (step.name, figure)
            for step, outcome in _tried(test, action)
            for figure in outcome.figures
            if figure.unit in units and figure.within is not None
        ]
        outside = [(name, figure) for name, figure in figures if not figure.within]
        if outside:
            name, worst = max(outside, key=lambda named: abs(named[1].error or 0.0))
            return FieldCheck(
                claim=row.claim, verdict="wrong",
                why=f"{len(outside)} of {len(figures)} figures are outside their band; {name}: {figure_words(worst)}",
            )  # fmt: skip
        if not figures:
            return _unjudged(row, "no figure with a band was measured")
        return _held(row, f"all of {len(figures)} figures are in their band")

    return judge


def _kernels(row: ClaimRow, test: FieldTest) -> FieldCheck:
    """A verdict of the compiler against the engine that launched them, or did not."""
    if not any(capability.startswith("12.") for capability in test.capabilities):
        return _unjudged(row, "no GPU of this box is SM120")
    starts = {step.engine: outcome for step, outcome in _tried(test, "start") if step.engine}
    judged = [
        (step.name, outcome.answers.get("answer"), starts[step.engine].ending)
        for step, outcome in _tried(test, "kernels")
        if step.engine in starts and outcome.ending == "done"
    ]
    sure = [judgement for judgement in judged if judgement[1] in ("fits", "does-not-fit")]
    wrong = [name for name, answer, ending in sure if (answer == "fits") != (ending == "done")]
    if wrong:
        return FieldCheck(claim=row.claim, verdict="wrong", why=f"{wrong[0]}: the engine showed the opposite")
    known = [name for name, _, _ in sure]
    return _held(row, "; ".join(known)) if known else _unjudged(row, "no kernel that was judged was launched")


def _weights(row: ClaimRow, test: FieldTest) -> FieldCheck:
    fetches = _tried(test, "fetch")
    if failed := _failed(fetches):
        return failed_check(row, failed)
    large = [
        step.name
        for step, outcome in fetches
        if any(figure.unit == "bytes" and figure.measured >= HUNDREDS_OF_GIGABYTES for figure in outcome.figures)
    ]
    return _held(row, "; ".join(large)) if large else _unjudged(row, "nothing of that size was fetched")


def _clients(row: ClaimRow, test: FieldTest) -> FieldCheck:
    verdicts = [(step.name, outcome.answers.get("clients")) for step, outcome in _tried(test, "prove")]
    if wrong := [name for name, verdict in verdicts if verdict == "failed"]:
        return FieldCheck(claim=row.claim, verdict="wrong", why=f"{wrong[0]}: the rung of clients failed")
    passed = [name for name, verdict in verdicts if verdict == "passed"]
    return _held(row, "; ".join(passed)) if passed else _unjudged(row, "no proof came as far as clients")


def figure_words(figure: FieldFigure) -> str:
    """`decode: 40.1 tok/s measured, 60 planned (49-70)`."""
    planned = f"{figure.planned:,.6g} planned" if figure.planned is not None else "nothing planned"
    band = f" ({figure.low:,.6g}-{figure.high:,.6g})" if figure.low is not None and figure.high is not None else ""
    return f"{figure.what}: {figure.measured:,.6g} {figure.unit} measured, {planned}{band}"


def failed_check(row: ClaimRow, failed: Tried) -> FieldCheck:
    step, outcome = failed
    return FieldCheck(claim=row.claim, verdict="wrong", why=f"{step.name} failed: {outcome.why}")


def _tried(test: FieldTest, *actions: FieldAction) -> list[Tried]:
    return [pair for pair in _pairs(test) if pair[0].action in actions and pair[1].ending != "not begun"]


def _pairs(test: FieldTest) -> Iterator[Tried]:
    for outcome in test.outcomes:
        yield test.step(outcome.step), outcome


def _failed(tried: Sequence[Tried], engines: Sequence[str] | None = None) -> Tried | None:
    return next(
        (pair for pair in tried if pair[1].ending == "failed" and (engines is None or pair[0].engine in engines)), None
    )


def _held(row: ClaimRow, why: str) -> FieldCheck:
    return FieldCheck(claim=row.claim, verdict="held", why=why)


def _unjudged(row: ClaimRow, why: str) -> FieldCheck:
    return FieldCheck(claim=row.claim, verdict="not judged", why=why)


_JUDGES: dict[JudgedBy, Callable[[ClaimRow, FieldTest], FieldCheck]] = {
    "engines": _engines,
    "recipes": _recipes,
    "memory": _figures("start", ("bytes", "tokens")),
    "speed": _figures("bench", ("tok/s",)),
    "kernels": _kernels,
    "weights": _weights,
    "clients": _clients,
}
