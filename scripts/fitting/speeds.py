"""A row of constants -> the same row as a fit on its published runs gives it today, and how far such fits are off.

At home: each group of runs left out in turn, and what others measured there and nothing was fitted on. One step away:
each model, format or GPU left out in turn, or only small batches and short contexts fitted and the others predicted,
and what others measured so far away.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import permutations
from statistics import NormalDist
from typing import Literal

from scripts.fitting.served_loads import known_cells
from upright.engines import ENGINES
from upright.facts import catalog
from upright.facts.catalog.rows.speed import Constants, Errors, FittedRange, SpeedRow, Step, TransferRow
from upright.facts.catalog.rows.words import MeasurementRow
from upright.planning.placement.engine_support import layers_of
from upright.planning.speed.decode import compute_bound
from upright.planning.speed.fitting import Sample, errors, fit, miss, seconds
from upright.planning.speed.published import (
    FittedCell,
    cells,
    chosen_row,
    engine_of,
    gpu_of,
    measurements,
    model_of,
)
from upright.planning.speed.rows import speed_row
from upright.planning.speed.samples import LayerSample, RankSample
from upright.planning.speed.speed_band import attention_known, steps_away
from upright.planning.speed.spread import OUTSIDE, SpeedMiss, spread

_OWN_CONSTANTS = 3
"""With fewer, a row among ranks is another's."""
_SHARES = frozenset(name for name in Constants.model_fields if name.endswith("_efficiency"))


def refit(row: SpeedRow) -> Constants:
    decoded = _fitted(known_cells(row.id), row.constants, row.fits)
    return _fitted(known_cells(row.id, prompts=True), decoded, row.prompt_fits)


def held_out(
    row: SpeedRow, key: Callable[[FittedCell], str], *, prompts: bool = False
) -> tuple[tuple[FittedCell, float], ...]:
    """Every cell with its error by a fit on the cells with another key."""
    known, names = known_cells(row.id, prompts=prompts), row.prompt_fits if prompts else row.fits
    misses: list[tuple[FittedCell, float]] = []
    for left_out in dict.fromkeys(key(cell) for cell in known):
        constants = _fitted([cell for cell in known if key(cell) != left_out], row.constants, names)
        misses += [(cell, miss(cell, constants)) for cell in known if key(cell) == left_out]
    return tuple(misses)


def _fitted(known: Sequence[FittedCell], start: Constants, names: Sequence[str]) -> Constants:
    return fit(known, start, names) if known and names else start


def home_errors(row: SpeedRow, *, prompts: bool = False) -> Errors | None:
    misses = home_misses(row, prompts=prompts)
    if not misses:
        return None
    how = "each load of the one published configuration" if _alone(row, prompts) else "each published configuration"
    count = len({missed.source for missed in misses})
    like = tuple(spread(there) for other in of_kind(row) if (there := home_misses(other, prompts=prompts)))
    told = f"{how} left out in turn, {count} source{'s' * (count > 1)}"
    return errors(misses, told, like, borrowed=borrowed(row))


@cache
def _home_misses(name: str, prompts: bool) -> tuple[SpeedMiss, ...]:
    row = speed_row(name)
    if prompts and not row.prompt_fits:  # what siblings reach prices them
        return ()
    key: Callable[[FittedCell], str] = _load if _alone(row, prompts) else lambda cell: cell.group
    held = (SpeedMiss(off, cell.source) for cell, off in held_out(row, key, prompts=prompts))
    return (*held, *(run.miss for run in beside(row, prompts=prompts) if not run.steps))


def home_misses(row: SpeedRow, *, prompts: bool = False) -> tuple[SpeedMiss, ...]:
    """Of a fit without the configuration, and on what others measured at home."""
    return _home_misses(row.id, prompts)


def _alone(row: SpeedRow, prompts: bool) -> bool:
    """Then the loads of that one configuration are left out."""
    return len({cell.group for cell in known_cells(row.id, prompts=prompts)}) == 1


def borrowed(row: SpeedRow) -> bool:
    """Whether a row among ranks has a constant or two of its own, and the others from another row."""
    return layers_of(row.engine) is None and len(row.fits) < _OWN_CONSTANTS


def of_kind(row: SpeedRow) -> tuple[SpeedRow, ...]:
    """Other fits on runs that divide their work alike: among ranks, or by whole layers.

    Among ranks a row with a constant or two of its own is another's, and so is most of its error.
    """
    layers = layers_of(row.engine) is None
    every = map(speed_row, catalog.rows("speeds"))
    fitted = {known.fitted_on: known for known in every if known.fits and not borrowed(known)}
    return tuple(
        known for runs, known in fitted.items() if runs != row.fitted_on and (layers_of(known.engine) is None) is layers
    )


@dataclass(frozen=True)
class RunBeside:
    """A published run that no constant was fitted on, as a plan would answer it."""

    row: MeasurementRow
    fitted_on: tuple[str, ...]
    prompt: bool
    steps: tuple[Step, ...]
    miss: SpeedMiss


def beside(row: SpeedRow, *, prompts: bool = False) -> tuple[RunBeside, ...]:
    return tuple(run for run in _beside() if run.fitted_on == row.fitted_on and run.prompt is prompts)


@cache
def _beside() -> tuple[RunBeside, ...]:
    return tuple(_runs_beside())


def _runs_beside() -> Iterator[RunBeside]:
    """Of the gathered runs, which say what kind of rate they are, those that a plan answers."""
    gathered = [row.id for row in catalog.measurements() if row.kind and engine_of(row) in ENGINES]
    for cell in cells(gathered):
        row = answering_row(cell.row)
        if row is None or not row.fits:
            continue
        planned = None if cell in known_cells(row.id, prompts=cell.is_prompt) else _as_planned(cell.sample, row)
        if planned is None:
            continue
        off = miss(planned, row.constants)
        yield RunBeside(
            cell.row, row.fitted_on, cell.is_prompt, steps_away(row, cell.load), SpeedMiss(off, cell.source)
        )


def answering_row(row: MeasurementRow) -> SpeedRow | None:
    """The row by which a plan for this run would print a speed: for its silicon and wires, with attention it knows."""
    chosen, model = chosen_row(row, gpu_of(row)), model_of(row)
    return chosen.row if chosen and chosen.tells and model and attention_known(model.architecture) else None


def _as_planned(made: RankSample | LayerSample, row: SpeedRow) -> RankSample | LayerSample | None:
    """What a plan counts: decode steps alone, where the constants were not fitted on served loads.

    None for what a plan does not answer, and for a run that is faster than its artifact's bytes can be read: it is of
    other bytes than its author says.
    """
    if made.tokens / made.tokens_per_second < fewest_seconds(made, row.constants):
        return None
    if isinstance(made, LayerSample):
        return made if made.case.silicon is not None and not made.case.host_layers else None
    if made.kind == "prompt":
        return made
    if made.kind == "served" and row.answer_tokens is None:
        made = replace(made, kind="decode")
    step, rows = seconds(made, row.constants), made.batch * (1 + made.guesses)
    return None if compute_bound(made.work, made.silicon, row.constants, rows, step) else made


def fewest_seconds(sample: Sample, constants: Constants) -> float:
    """Of one step on perfect hardware: every share of a bandwidth is one, and nothing else takes time."""
    return sum(amount.amount for amount in sample.amounts(constants.expert_skew) if amount.constant in _SHARES)


def _load(cell: FittedCell) -> str:
    return f"{cell.load.users} users" if cell.load.users > 1 else f"{cell.load.context_tokens} tokens"


def home(row: SpeedRow) -> FittedRange:
    known = known_cells(row.id)
    return FittedRange(
        shapes=tuple(sorted({cell.load.shape for cell in known})),
        formats=tuple(sorted({cell.load.expert_format for cell in known})),
        gpus=tuple(sorted({cell.load.gpu or "none" for cell in known})),
        users=max(cell.load.users for cell in known),
        context_tokens=max(cell.load.context_tokens for cell in known),
    )


@dataclass(frozen=True)
class Transfer:
    """Runs on the far side of one step, predicted by constants that were fitted on this side alone."""

    step: Step
    of: Literal["decode", "prompt"]
    about: str
    how: str
    key: Callable[[FittedCell], str] | None = None
    """Left out in turn; None where `near` says which side a run is on, or runs beside are all there is."""
    near: Callable[[FittedCell], bool] | None = None
    beside: tuple[str, ...] = ()
    """Further runs, which no row was fitted on."""
    where: str = ""
    """Set where a row has a cost of its own."""

    @property
    def id(self) -> str:
        return f"{self.step}-{self.of}{self.where}"

    @property
    def speeds(self) -> tuple[str, ...]:
        """Rows of constants whose runs are on both sides of the step, as the transfer's own row names them."""
        row = catalog.get("transfers", self.id)
        assert isinstance(row, TransferRow)
        return row.speeds

    def errors(self) -> Errors | None:
        misses = self.misses()
        rows = (home_misses(speed_row(name), prompts=self.of == "prompt") for name in self.speeds)
        return errors(misses, self.how, [spread(near) for near in rows if near]) if misses else None

    def beyond(self) -> float | None:
        """Over the error of the same rows at home."""
        far = self.misses()
        near = [missed for name in self.speeds for missed in home_misses(speed_row(name), prompts=self.of == "prompt")]
        return round(beyond(far, near), 3) if far and near else None

    def misses(self) -> tuple[SpeedMiss, ...]:
        return tuple(missed for name in self.speeds for missed in self._misses(speed_row(name)))

    def _misses(self, row: SpeedRow) -> Iterator[SpeedMiss]:
        prompts = self.of == "prompt"
        yield from (run.miss for run in beside(row, prompts=prompts) if run.steps[-1:] == (self.step,))
        if self.key is not None:
            yield from (SpeedMiss(off, cell.source) for cell, off in held_out(row, self.key, prompts=prompts))
            return
        if self.near is None:
            return
        known, names = known_cells(row.id, prompts=prompts), row.prompt_fits if prompts else row.fits
        known += cells(self.beside)
        constants = _fitted([cell for cell in known if self.near(cell)], row.constants, names)
        yield from (SpeedMiss(miss(cell, constants), cell.source) for cell in known if not self.near(cell))


@dataclass(frozen=True)
class MachineTransfer(Transfer):
    """Two who measured one model in one format on one GPU, the one predicted by the other: two machines of a kind.

    How they measured and which version they ran differs too, so that it is not less than two machines differ by.
    """

    def errors(self) -> Errors | None:
        return errors(self.misses(), self.how)

    def beyond(self) -> float | None:
        squares = _by_source(self.misses())
        return round(_reach(sum(squares.values()) / len(squares)), 3)

    def _misses(self, row: SpeedRow) -> Iterator[SpeedMiss]:
        kinds: dict[str, dict[str, list[float]]] = {}
        for missed in home_misses(row):
            publisher, _, measured = missed.source.partition(" ")
            kinds.setdefault(measured, {}).setdefault(publisher, []).append(missed.log)
        for measured, publishers in kinds.items():
            means = [sum(logs) / len(logs) for logs in publishers.values()]
            yield from (SpeedMiss(math.expm1(one - other), measured) for one, other in permutations(means, 2))


@dataclass(frozen=True)
class ArchitectureTransfer(Transfer):
    """Runs on silicon that has no row of its own, and those of each row's own silicon as if it had none."""

    def _misses(self, row: SpeedRow) -> Iterator[SpeedMiss]:
        return (missed for _, missed in self.runs(row))

    def runs(self, row: SpeedRow) -> Iterator[tuple[MeasurementRow, SpeedMiss]]:
        gathered = [known.id for known in catalog.measurements() if known.engine == row.engine and gpu_of(known)]
        for cell in cells(gathered):
            chosen, answering = chosen_row(cell.row, gpu_of(cell.row), elsewhere=True), answering_row(cell.row)
            if cell.is_prompt or answering is None or chosen is None or not chosen.of_sibling:
                continue
            planned = _as_planned(replace(cell.sample, kernels=row.kernels), row) if chosen.row.id == row.id else None
            if planned is not None:
                yield cell.row, SpeedMiss(miss(planned, row.constants), cell.source)


def beyond(far: Sequence[SpeedMiss], near: Sequence[SpeedMiss]) -> float:
    """What a step adds to a band at home, as a factor: 1 if predictions across it are no worse.

    A source is compared with itself at home, and one that was never there with all that were.
    """
    away, at_home = _by_source(far), _by_source(near)
    usual = sum(at_home.values()) / len(at_home)
    added = sum(square - at_home.get(source, usual) for source, square in away.items()) / len(away)
    return _reach(added)


def _reach(square: float) -> float:
    return math.exp(NormalDist().inv_cdf(1 - OUTSIDE / 2) * math.sqrt(max(0.0, square)))


def _by_source(misses: Sequence[SpeedMiss]) -> dict[str, float]:
    """Mean square of each source's errors."""
    squares: dict[str, list[float]] = {}
    for missed in misses:
        squares.setdefault(missed.source, []).append(missed.log**2)
    return {source: sum(parts) / len(parts) for source, parts in squares.items()}


# Kimi K2.5 by the builds of March 2026, before the kernels that every later build has.
EARLIER_BUILDS = ("m288-m296", "m300-m302")


def _march(cell: FittedCell) -> bool:
    return cell.row.id in {row.id for row in measurements(EARLIER_BUILDS)}


# SGLang's INT4 of compressed-tensors takes three times what its bytes and layers do: Kimi K2.5 on H200.
SLOW_INT4 = ("m329-m333",)

FEW_USERS, SHORT_CONTEXT = 8, 32_768
TRANSFERS = (
    Transfer("model", "decode", "another model than the constants were fitted on, on the same engine and GPUs",
             "each model left out in turn", key=lambda cell: cell.load.shape),
    Transfer("model", "decode", "another model, on GPUs with NVLink",
             "each model left out in turn", key=lambda cell: cell.load.shape, where="-nvlink"),
    Transfer("model", "decode", "another model, with other prompts read between steps without a graph",
             "each model left out in turn", key=lambda cell: cell.load.shape, where="-between-prompts"),
    Transfer("model", "decode", "another model, whole layers on one GPU",
             "each model left out in turn", key=lambda cell: cell.load.shape, where="-layers"),
    Transfer("model", "decode", "another model, whole layers on one Strix Halo",
             "each model left out in turn", key=lambda cell: cell.load.shape, where="-strix-halo"),
    Transfer("model", "prompt", "prompts of another model than the constants were fitted on",
             "each model left out in turn", key=lambda cell: cell.load.shape),
    Transfer("model", "prompt", "prompts of another model, whole layers on one GPU",
             "each model left out in turn", key=lambda cell: cell.load.shape, where="-layers"),
    Transfer("format", "decode", "experts stored in another format than the constants were fitted on",
             "each format left out in turn", key=lambda cell: cell.load.expert_format),
    Transfer("format", "decode", "another weight format, with other prompts read between steps without a graph",
             "Kimi in INT4, which nothing was fitted on, by runs in other formats",
             near=lambda cell: cell.load.expert_format != "int4", beside=SLOW_INT4, where="-between-prompts"),
    Transfer("format", "prompt", "prompts with experts stored in another format",
             "each format left out in turn", key=lambda cell: cell.load.expert_format),
    Transfer("gpu", "decode", "another GPU of the same kind of architecture and interconnect",
             "each GPU left out in turn", key=lambda cell: cell.load.gpu or ""),
    Transfer("gpu", "decode", "another GPU of the architecture, without NVLink",
             "runs on other GPUs, which nothing was fitted on", where="-pcie"),
    Transfer("version", "decode", "another engine version than the measured ones",
             "builds of March 2026 by constants of the builds after", near=lambda cell: not _march(cell),
             beside=EARLIER_BUILDS),
    Transfer("users", "decode", "a higher concurrency than was fitted",
             f"fitted on at most {FEW_USERS} users, tested above", near=lambda cell: cell.load.users <= FEW_USERS),
    Transfer("users", "decode", "a higher concurrency, with other prompts read between steps without a graph",
             "runs of more users, which nothing was fitted on", where="-between-prompts"),
    Transfer("context", "decode", "a longer context than was fitted",
             f"fitted on at most {SHORT_CONTEXT} tokens, tested above",
             near=lambda cell: cell.load.context_tokens <= SHORT_CONTEXT),
    Transfer("context", "prompt", "prompts longer than were fitted",
             f"fitted on at most {SHORT_CONTEXT} tokens, tested above",
             near=lambda cell: cell.load.context_tokens <= SHORT_CONTEXT),
    ArchitectureTransfer("architecture", "decode", "another GPU architecture than any that this engine was measured on",
                         "runs on GPUs of a generation without constants, and on others as if theirs had none"),
    MachineTransfer("machine", "decode", "another machine of the kind that was measured",
                    "two publishers of one model on one GPU, each by the other"),
)  # fmt: skip
