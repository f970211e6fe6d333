"""Published runs of a model on as many GPUs of the kind, and what is known to set one apart from a plan."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from functools import cache

from upright.facts import catalog
from upright.facts.catalog.published_rates import PublishedRate, gpu_named, published_rates
from upright.facts.catalog.rows.hardware import GpuRow
from upright.facts.catalog.rows.model import ModelRow
from upright.facts.records.box import Box
from upright.facts.records.model import Model
from upright.facts.records.plan import Plan

_SPREAD = re.compile(r"\bTP(\d+)(?: DCP(\d+))?")
_QUANT = re.compile(r":([\w.-]+)|\b(NVFP4|MXFP4|FP8|AWQ|GPTQ|INT4|INT8|BF16|(?:UD-)?I?Q\d_\w+)\b", re.IGNORECASE)
_FORK = re.compile(r"-fork.*")
_Silicon = tuple[str, float, float | int | None]


def runs_of(row: ModelRow, box: Box) -> Sequence[PublishedRate]:
    """Of every release and build of this model, on as many GPUs of the kind."""
    names = {row.id, row.name, *row.aliases, *(artifact.repository for artifact in row.artifacts)}
    parts = (part.lower() for name in names for part in (name, name.rpartition("/")[2]))
    return runs_on(box, frozenset(parts))


def ranks_of_run(seen: PublishedRate) -> tuple[int, int]:
    """Tensor parallel, and DCP; 0 where the author names none."""
    spread = _SPREAD.search(seen.parallelism or "")
    return (int(spread[1]), int(spread[2] or 1)) if spread else (0, 0)


def runs_on(box: Box, models: frozenset[str] | None) -> Sequence[PublishedRate]:
    own = catalog.find("gpus", box.gpus[0].row) if box.gpus and box.gpus[0].row else None
    if box.mixed or (box.gpus and not isinstance(own, GpuRow)):
        return ()
    return known_runs(_class(own) if isinstance(own, GpuRow) else None, len(box.gpus), models)


@cache
def known_runs(silicon: _Silicon | None, count: int, models: frozenset[str] | None) -> tuple[PublishedRate, ...]:
    @cache
    def same(name: str) -> bool:
        """Of one silicon: server, workstation and Max-Q editions are one class."""
        other = gpu_named(name)
        return silicon is None if other is None else _class(other) == silicon

    return tuple(published_rates(models, same, count))


def _class(gpu: GpuRow) -> _Silicon:
    return gpu.compute_capability, round(gpu.memory_bytes / 2**30), gpu.sm_count.value


def differences(seen: PublishedRate, plan: Plan, model: Model) -> Iterator[tuple[str, str, float]]:
    """Kind, words, and how many times; what an author does not name is none."""
    users, engine = plan.goal.users, _FORK.sub("", seen.engine)
    if seen.concurrency != users:
        yield "users", f"{seen.concurrency} for {users} at once", abs(math.log2(seen.concurrency / users))
    if engine != plan.engine:
        yield "engine", f"{seen.engine} for {plan.engine}", 1.0
    elif engine != seen.engine and not plan.goal.image:
        yield "fork", f"a fork of {engine}", 1.0
    if bool(seen.speculation) != plan.goal.draft:
        yield "a draft", "a draft" if seen.speculation else "no draft", 1.0
    theirs, ours = quant_of(seen.artifact), quant_of(f"{model.source} {model.quantisation or ''}")
    if theirs and ours and theirs != ours:
        yield "build", f"{theirs} for {ours}", 1.0
    tensor, sharing = ranks_of_run(seen)
    if tensor and plan.memory_fraction is not None:
        if tensor != plan.parallel.tensor:
            yield "TP", f"TP {tensor} for {plan.parallel.tensor}", 1.0
        if sharing != plan.parallel.decode_context:
            yield "DCP", f"DCP {sharing} for {plan.parallel.decode_context}", 1.0
    if seen.kv_dtype and seen.kv_dtype[:3] != plan.kv.dtype[:3] and "auto" not in seen.kv_dtype:
        yield "KV", f"{seen.kv_dtype} KV for {plan.kv.dtype}", 1.0


def quant_of(text: str) -> str | None:
    """`Q4_K_M`, `FP8`: how the weights are stored, where the text tells."""
    found = _QUANT.search(text)
    return (found[1] or found[2]).upper().removesuffix("_MOE").removeprefix("MIX-") if found else None
