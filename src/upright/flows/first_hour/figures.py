"""What a step left on the disk -> figures that were planned, each beside what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from upright.facts.records.benchmark import Benchmark, Cell
from upright.facts.records.evidence import Evidence
from upright.facts.records.first_hour import FieldFigure
from upright.facts.records.plan import Plan, Rate
from upright.facts.records.residuals import Residuals

SHORT_TOKENS = 256
"""A prompt that hardly fills a cache: held against the plan's speed with an empty one."""


def memory_figures(residuals: Residuals) -> Iterator[FieldFigure]:
    """Terms that were read, and the KV cache in tokens."""
    for residual in residuals.lines:
        if residual.measured_bytes.value is None:
            continue
        blurred = residual.within is True  # engines round what they say: within is judged with that
        measured = float(residual.measured_bytes.value)
        low, high = residual.predicted_low_bytes, residual.predicted_high_bytes
        if blurred and low is not None and high is not None:
            low, high = min(low, int(measured)), max(high, int(measured))
        yield FieldFigure(
            what=f"{residual.term} on {residual.device}", unit="bytes", planned=residual.predicted_bytes.value,
            low=low, high=high, measured=measured,
        )  # fmt: skip
    pool = residuals.pool
    if pool.measured_tokens.value is not None:
        yield FieldFigure(
            what="KV cache", unit="tokens", planned=pool.predicted_tokens.value, low=pool.predicted_low_tokens,
            high=pool.predicted_high_tokens, measured=float(pool.measured_tokens.value),
        )  # fmt: skip


def speed_figures(benchmark: Benchmark, plan: Plan) -> Iterator[FieldFigure]:
    """Decode at each context, and prefill where the plan has a figure; marked cells say nothing."""
    for cell in benchmark.cells:
        if cell.marks or cell.failed or cell.user_tokens_per_second is None:
            continue
        prompt = cell.shape.prompt_tokens
        yield _rated(f"decode at {prompt:,} context", _decode(plan, prompt), cell.user_tokens_per_second)
        prefill = _prefill(cell)
        if prompt > SHORT_TOKENS and prefill is not None:
            yield _rated(f"prefill of {prompt:,} tokens", plan.speed.prompt if plan.speed else None, prefill)


def rung_answers(evidence: Evidence) -> dict[str, str]:
    """The verdict of each rung."""
    return {rung: evidence.rung_verdict(rung) for rung in evidence.rungs}


def climbed_words(answers: Mapping[str, str]) -> str:
    """`climbed boot, smoke; skipped: task, clients`: what the time left out was not climbed."""
    climbed = ", ".join(rung for rung, verdict in answers.items() if verdict == "passed")
    others = {verdict: [rung for rung in answers if answers[rung] == verdict] for verdict in answers.values()}
    rest = [f"{verdict}: {', '.join(rungs)}" for verdict, rungs in others.items() if verdict != "passed"]
    return "; ".join([f"climbed {climbed or 'nothing'}", *rest])


def _decode(plan: Plan, prompt_tokens: int) -> Rate | None:
    if plan.speed is None:
        return None
    return plan.speed.empty if prompt_tokens <= SHORT_TOKENS else plan.speed.decode


def _prefill(cell: Cell) -> float | None:
    ttft = cell.ttft_seconds
    return cell.shape.prompt_tokens / ttft.mean if ttft is not None and ttft.mean > 0 else None


def _rated(what: str, rate: Rate | None, measured: float) -> FieldFigure:
    if rate is None:
        return FieldFigure(what=what, unit="tok/s", planned=None, measured=measured)
    return FieldFigure(
        what=what, unit="tok/s", planned=rate.best, low=rate.low, high=rate.high, measured=measured
    )  # fmt: skip
