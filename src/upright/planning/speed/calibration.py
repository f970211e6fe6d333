"""Calibrates a row of speed constants on a person's own measurements, and says how far it is off.

Few measurements tell few constants: what they cannot tell stays as the catalogue has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from upright.base.errors import UprightError
from upright.facts.catalog.rows.speed import Constants, Errors, FittedRange, SpeedRow
from upright.facts.records.benchmark import Cell
from upright.facts.records.box import Box
from upright.facts.records.model import Model
from upright.facts.records.plan import Plan
from upright.planning.speed.decode import Amount
from upright.planning.speed.fitting import FITTED, PROMPT, Sample, errors, fit, leave_out, miss
from upright.planning.speed.predict import DRAFT_TOKENS, SpeedCase, speed_case, speed_constants
from upright.planning.speed.speed_band import WIDEST, expert_format, shape_name
from upright.planning.speed.spread import SpeedMiss

# Rows from which so many constants can be told; each is the one that explains most of what is left.
_TOLD = (
    (3, ("layer_us", "host_efficiency", "host_measured_efficiency", "host_layer_us")),
    (6, ("weight_efficiency", "cache_efficiency", "grouped_efficiency")),
    (6, ("host_gb_s", "host_alone_gb_s", "host_cache_gb_s")),
    (12, ("hop_us", "one_shot_gb_s", "expert_skew")),
    (24, tuple(sorted(FITTED))),
)
FEWEST = _TOLD[0][0]
PARTS = 6
_FILLED = 0.875
_EACH_TOKEN = 0.95
_ONE_READ_SECONDS = 5e-5
"""Between two tokens that came with one read of the socket: no engine's step."""


@dataclass(frozen=True)
class Calibration:
    """What was found out."""

    start: SpeedRow
    constants: Constants
    fitted: tuple[str, ...]
    rows: int
    before: Errors
    """Of the catalogue's constants on these rows."""
    held_out: Errors
    """Of constants that were fitted without the row they predict."""

    @property
    def refusal(self) -> str | None:
        """Why plans had better not use it."""
        if self.held_out.median > self.before.median:
            return "the catalogue's constants predict your measurements better than a fit on them"
        if self.held_out.high > WIDEST * self.held_out.low:
            ends = f"{self.held_out.low:.2g} to {self.held_out.high:.2g} times"
            return f"what was left out lies {ends} where it was predicted: measure while nothing else runs"
        return None


@dataclass(frozen=True)
class CellSample:
    """A cell of a benchmark against the plan that the engine was started by."""

    id: str
    case: SpeedCase
    batch: int
    context: float
    tokens_per_second: float
    output_tokens: float
    acceptance: float | None
    alone: bool
    """Whether prompts of others are left out of the rate."""

    @property
    def tokens(self) -> float:
        return self.batch * (1 + (DRAFT_TOKENS * (self.acceptance or 0.0) if self.case.plan.goal.draft else 0.0))

    def amounts(self, skew: float) -> Iterator[Amount]:
        yield from self.case.amounts(self.batch, self.context, skew)
        if self.alone:
            return
        # While it answers, each request waits once for the prompt of every other one.
        share = (self.batch - 1) / max(1.0, self.output_tokens)
        for prompt_amount in self.case.prompt_amounts(max(1, int(self.context))) or ():
            yield Amount("prompts", prompt_amount.constant, share * prompt_amount.amount)


def calibrate(samples: Sequence[Sample], start: SpeedRow) -> Calibration:
    if len(samples) < FEWEST:
        raise UprightError(
            f"{len(samples)} usable measurements tell no constant", hint=f"measure at least {FEWEST}: upright bench"
        )
    told = {name for least, names in _TOLD if len(samples) >= least for name in names}
    used = {amount.constant for sample in samples for amount in sample.amounts(1.0) if amount.amount}
    fitted = tuple(sorted(name for name in told if name in used or name == "expert_skew"))
    if len(samples) >= 24 and any(name in used for name in PROMPT):
        fitted = tuple(sorted({*fitted, *(name for name in PROMPT if name in used)}))
    parts = {sample.id: index % PARTS for index, sample in enumerate(samples)}
    misses = leave_out(samples, start.constants, lambda sample: str(parts[sample.id]), fitted)
    return Calibration(
        start=start,
        constants=fit(samples, start.constants, fitted),
        fitted=fitted,
        rows=len(samples),
        before=errors(
            [SpeedMiss(miss(sample, start.constants), sample.id) for sample in samples], "the catalogue's constants"
        ),
        held_out=errors(
            [SpeedMiss(off, sample.id) for sample, off in misses],
            f"a part of these measurements in {PARTS} left out in turn",
        ),
    )


def deployment_case(plan: Plan, model: Model, box: Box) -> SpeedCase:
    """What is counted of a deployment, by the row to start from."""
    box = plan.box_in_use(box)
    chosen = speed_constants(box, plan.engine, plan.engine_version, plan.parallel.ranks, plan.goal.image, model)
    case = speed_case(plan, model, box, chosen.row) if chosen else None
    if chosen is None or case is None:
        raise UprightError(
            f"nothing to calibrate: bandwidths of {box.name} are not known, and constants are shares of them",
            hint="upright probe --measure measures system RAM, then up again; a GPU needs a row in the catalogue",
        )
    return case


def cell_samples(
    cells: Iterable[Cell], plan: Plan, model: Model, box: Box
) -> tuple[SpeedRow, tuple[CellSample, ...], tuple[str, ...]]:
    """The row to start from, the cells that can be used, and why others cannot."""
    case = deployment_case(plan, model, box)
    repeats: dict[str, list[CellSample]] = {}
    left = []
    for number, cell in enumerate(cells, 1):
        rate, name = cell.user_tokens_per_second, f"{cell.run} cell {number}"
        if not cell.complete or cell.marks or rate is None:
            left.append(f"{name}: {', '.join(cell.marks) or 'incomplete, or too few tokens'}")
            continue
        accepted = cell.engine.acceptance if cell.engine else None
        if plan.goal.draft and accepted is None:
            left.append(f"{name}: speculates, and nobody counted what was accepted")
            continue
        batch = max(1, round(cell.in_flight_mean) or cell.shape.concurrency)
        written = cell.output_tokens.mean if cell.output_tokens else float(cell.shape.output_tokens)
        context = (cell.prompt_tokens.mean if cell.prompt_tokens else cell.shape.prompt_tokens) + written / 2
        alone = not plan.goal.draft and _token_by_token(cell)
        if alone and cell.itl_seconds is not None:
            rate = 1 / cell.itl_seconds.p50
        sample = CellSample(name, case, batch, context, rate * batch, written, accepted, alone)
        repeats.setdefault(cell.key, []).append(sample)
    return case.row, tuple(map(_middle, repeats.values())), tuple(left)


def _token_by_token(cell: Cell) -> bool:
    """Then the median gap is a step without the prompts that others bring, which the mean has in it."""
    gaps, answers = cell.itl_seconds, cell.output_tokens
    if gaps is None or answers is None or gaps.p50 <= _ONE_READ_SECONDS:
        return False
    return gaps.count >= _EACH_TOKEN * answers.count * (answers.mean - 1)


def _middle(repeats: Sequence[CellSample]) -> CellSample:
    """Of the same load measured again, one: the median."""
    return sorted(repeats, key=lambda sample: sample.tokens_per_second)[len(repeats) // 2]


def own_home(samples: Sequence[CellSample], plan: Plan, model: Model, box: Box) -> FittedRange:
    """What these cells are of: there a fit on them is at home."""
    longest = max(sample.context + sample.output_tokens / 2 for sample in samples)
    gpu = next((gpu.row or gpu.name for gpu in box.gpus), "none")
    return FittedRange(
        shapes=(shape_name(model.architecture),),
        formats=(expert_format(model),),
        gpus=(gpu,),
        versions=f"=={plan.engine_version}" if plan.engine_version else "*",
        users=max(sample.batch for sample in samples),
        context_tokens=plan.context_tokens if longest >= _FILLED * plan.context_tokens else int(longest),
    )


def own_row(
    calibration: Calibration, name: str, capability: str | None, home: FittedRange | None, sources: Sequence[str]
) -> SpeedRow:
    """As it is written into the person's own catalogue."""
    start = calibration.start
    rounded = {key: float(f"{constant:.4g}") for key, constant in calibration.constants.model_dump().items()}
    return start.model_copy(
        update={
            "id": name,
            "machine": None,
            "capability": f"=={capability}" if capability else start.capability,
            "constants": Constants(**rounded),
            "fitted_on": (),
            "home": home or start.home,
            "errors": calibration.held_out,
            "gpu_errors": None,
            "gpu_runs": (),
            "basis": "measured",
            "why": f"fitted on {calibration.rows} measurements of your own: {', '.join(calibration.fitted)}; "
            f"the rest as in speeds/{start.id}",
            "grade": "A",
            "sources": tuple(sources),
        }
    )
