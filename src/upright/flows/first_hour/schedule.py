"""Steps of a field test on a box within its limits, in the order in which they are tried.

First what everything else stands on (the probe, kernels that were only compiled), then the smallest real model, then
the largest that fits memory and time, then what is known least. Pure: the same box and limits give the same schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from upright.base.errors import UsageError
from upright.base.units import format_duration, format_size
from upright.engines import ENGINES
from upright.facts.records.box import Box
from upright.facts.records.first_hour import FieldAction, FieldStep
from upright.facts.records.model import Model
from upright.flows.first_hour import estimates
from upright.flows.first_hour.cells import CellSource, FieldCell, artifacts_for, smallest
from upright.flows.first_hour.uncertainty import band, prediction_words, uncertainty_key

_MOST_LEFT_OUT, _MOST_TOO_LARGE = 6, 2
AtHand = Callable[[Model], bool]


@dataclass(frozen=True)
class FieldOptions:
    """What a person says of a field test."""

    seconds: float
    """That time and money allow together."""
    download_rate: float = estimates.DOWNLOAD_BYTES_PER_SECOND
    """Bytes a second from the hub."""
    models: tuple[Model, ...] = ()
    """Instead of those of the catalogue."""
    engines: Collection[str] | None = None
    """Engines that are on the box; None: whatever the planner offers."""
    at_hand: AtHand = lambda model: False
    """Whether an artifact's weights are on the box already."""


@dataclass
class FieldSchedule:
    """Steps, and what would have been tried with more time."""

    wish: FieldOptions
    steps: list[FieldStep] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    @property
    def left_seconds(self) -> float:
        planned = sum(step.estimated_seconds for step in self.steps)
        return self.wish.seconds - estimates.END_SECONDS - planned

    def has(self, name: str) -> bool:
        return any(step.name == name for step in self.steps)

    def add(self, steps: Sequence[FieldStep]) -> bool:
        """All of them or none: a model that is fetched and not started taught nothing."""
        new = [step for step in steps if not self.has(step.name)]
        if sum(step.estimated_seconds for step in new) > self.left_seconds:
            return False
        self.steps += new
        return True

    def take(self, cell: FieldCell, why: str) -> bool:
        steps = list(cell_steps(cell, self.wish, why))
        if self.add(steps):
            return True
        needed = sum(step.estimated_seconds for step in steps if not self.has(step.name))
        weights, left = format_size(cell.model.tensor_bytes), format_duration(max(0.0, self.left_seconds))
        self.left_out.append(f"{cell.label} ({weights}): needs about {format_duration(needed)}, and {left} are left")
        return False


def make_schedule(box: Box, wish: FieldOptions) -> FieldSchedule:
    """UsageError if not even the smallest model can be started in that time."""
    schedule, source = FieldSchedule(wish), CellSource.of(box, wish.engines)
    models = list(wish.models) or artifacts_for(box)
    schedule.add([_plain("probe", "probe", "everything that follows is planned for what it sees")])
    small = smallest(models, source)
    if not small:
        raise UsageError(f"no model fits {box.name} by an engine that is there", hint="upright recommend, or --model")
    first = min(small, key=lambda cell: cell.model.tensor_bytes)
    engines = _with_kernels(box, small)
    large = _largest(
        models, source, FieldSchedule(wish, [*schedule.steps, *_kernel_steps(engines, first)]), first, schedule
    )
    schedule.add(_kernel_steps(engines, (large or [first])[0]))
    if not schedule.take(first, "the smallest real model: whatever fails here fails cheaply"):
        raise UsageError(
            f"{format_duration(wish.seconds)} are too short for the smallest model: {schedule.left_out[0]}",
            hint="more time with --budget, or more money with --spend-limit",
        )
    for cell in large:
        schedule.take(cell, "the largest that fits memory and time")
    rest = [cell for cell in small if cell is not first]
    for cell in sorted(rest, key=lambda cell: uncertainty_key(cell.plan), reverse=True):
        schedule.take(cell, "another engine on a small model, what is known least first")
    del schedule.left_out[_MOST_LEFT_OUT:]
    return schedule


def cell_steps(cell: FieldCell, wish: FieldOptions, why: str) -> Iterator[FieldStep]:
    """Weights, a start, a proof, a measurement."""
    model, told = cell.model, {"band": band(cell.plan), "known": prediction_words(cell.plan), "why": why}
    if not wish.at_hand(model):
        seconds, how = estimates.fetching(model.tensor_bytes, wish.download_rate)
        yield FieldStep(
            name=f"fetch {cell.plan.model}", action="fetch", model=model.source, why=why,
            estimated_seconds=seconds, estimate_why=how,
        )  # fmt: skip
    actions: tuple[FieldAction, ...] = ("start", "prove", "bench")
    for action in actions:
        seconds, how = _cell_seconds(action, model, wish.seconds)
        yield FieldStep(
            name=f"{action} {cell.label}", action=action, model=model.source, engine=cell.plan.engine, goal=cell.goal,
            estimated_seconds=seconds, estimate_why=how, **told,
        )  # fmt: skip


def _cell_seconds(action: FieldAction, model: Model, limit_seconds: float) -> tuple[float, str]:
    return estimates.starting(model.tensor_bytes) if action == "start" else estimates.sharing(action, limit_seconds)


def _plain(name: str, action: FieldAction, why: str, engine: str | None = None, model: str | None = None) -> FieldStep:
    return FieldStep(
        name=name, action=action, engine=engine, model=model, why=why,
        estimated_seconds=estimates.SECONDS[action], estimate_why="assumed",
    )  # fmt: skip


def _kernel_steps(engines: Sequence[str], cell: FieldCell) -> list[FieldStep]:
    why = "its kernels were compiled for this GPU architecture, and never launched"
    return [_plain(f"kernels of {engine}", "kernels", why, engine, cell.model.source) for engine in engines]


def _largest(
    models: Sequence[Model], source: CellSource, trial: FieldSchedule, after: FieldCell, schedule: FieldSchedule
) -> list[FieldCell]:
    """Cells of the largest artifact that leaves time for the smallest; what would need more time is named."""
    trial.take(after, "")
    for model in sorted(models, key=lambda model: (-model.tensor_bytes, model.source)):
        cells = source.cells(model) if model.tensor_bytes > after.model.tensor_bytes else []
        if cells and trial.take(cells[0], ""):
            break
    else:
        cells = []
    schedule.left_out += trial.left_out[:_MOST_TOO_LARGE]
    return cells


def _with_kernels(box: Box, cells: Sequence[FieldCell]) -> list[str]:
    """Engines with Triton kernels, where there is a GPU whose architecture is known."""
    if not any(gpu.compute_capability for gpu in box.gpus):
        return []
    engines = dict.fromkeys(cell.plan.engine for cell in cells)
    return [engine for engine in engines if ENGINES[engine].kernels is not None]
