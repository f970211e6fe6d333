"""Published runs of one setting -> how far a run that is left out lies from the others: the first level of a band."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from statistics import median

from upright.facts import catalog
from upright.facts.catalog.published_rates import one_shot
from upright.facts.catalog.rows.speed import Errors, SpeedRow, TransferRow
from upright.facts.catalog.rows.words import MeasurementRow
from upright.planning.placement.engine_support import layers_of
from upright.planning.speed import published
from upright.planning.speed.fitting import seconds
from upright.planning.speed.own_runs import OF_ALL, RunPoint, left_out, level, within
from upright.planning.speed.samples import RankSample
from upright.planning.speed.speed_band import attention_known
from upright.planning.speed.spread import OUTSIDE

FEWEST = 10
"""Settings with several runs from which an engine has a spread of its own."""
ABOUT = "another run of a setting that was published: the same GPUs, engine, build, users and cache"


def rows() -> Iterator[TransferRow]:
    misses = _misses()
    for name in sorted({name for name, _, _ in misses}):
        own = [(off, setting) for other, off, setting in misses if other == name]
        if len({setting for _, setting in own}) >= FEWEST:
            yield _row(name, own)
    yield _row(OF_ALL, [(off, setting) for _, off, setting in misses])


def _row(name: str, misses: list[tuple[float, str]]) -> TransferRow:
    reach = within(misses, 1 - OUTSIDE)
    settings = len({setting for _, setting in misses})
    figures = Errors(
        median=round(median(abs(math.expm1(off)) for off, _ in misses), 3),
        ninth=round(math.expm1(reach), 3),
        low=round(math.exp(-reach), 3),
        high=round(math.exp(reach), 3),
        rows=len(misses),
        how=f"each run left out in turn, {settings} settings",
    )
    speeds = tuple(
        row.id for row in catalog.rows("speeds").values()
        if isinstance(row, SpeedRow) and row.fitted_on and (name in (OF_ALL, level(row.engine, False))
            or (name == level(row.engine, True) and layers_of(row.engine) is not None))
    )  # fmt: skip
    return TransferRow(
        id=name, step="run", of="decode", speeds=speeds, errors=figures, beyond=figures.high, about=ABOUT, grade="D",
        sources=("the published runs that share a setting",),
    )  # fmt: skip


@cache
def _misses() -> tuple[tuple[str, float, str], ...]:
    """Of which level, how far off, and of which setting."""
    settings: dict[tuple[object, ...], list[RunPoint]] = {}
    for row in _told():
        if (found := _point(row)) is not None:
            settings.setdefault(found[0], []).append(found[1])
    return tuple(
        (str(setting[0]), off, str(setting[1:])) for setting, points in settings.items() for off in left_out(points)
    )


def _told() -> Iterator[MeasurementRow]:
    groups: dict[str, list[MeasurementRow]] = {}
    for row in catalog.measurements():
        groups.setdefault(row.group or row.id, []).append(row)
    for members in groups.values():
        shared = published.shares_a_prompt(members)
        for row in members:
            plain = row.speculation in (None, "none") and row.kind != "aggregate"
            if (
                row.decode_tokens_per_second
                and (row.engine_version or row.cpu)
                and plain
                and not (shared and (row.concurrency or 1) > 1 and row.context_tokens)
            ):
                yield row


def _point(row: MeasurementRow) -> tuple[tuple[object, ...], RunPoint] | None:
    row = row.model_copy(update={"prefill_tokens_per_second": None})
    made, constants, model = published.sample(row), published.row_of(row), published.model_of(row)
    if made is None or constants is None or model is None or not attention_known(model.architecture):
        return None
    if isinstance(made, RankSample) and made.kind == "served":
        return None
    if not (time := seconds(made, constants.constants)):
        return None  # what the processor reads has no time
    setting = (
        level(published.engine_of(row), bool(row.host_bandwidth)),
        row.engine, published.gpu_of(row), row.gpu_count, model.source, row.parallelism,
        row.kv_dtype, row.concurrency or 1, row.cpu, one_shot(row.interconnect), row.gpu_expert_layers,
    )  # fmt: skip
    off = math.log(made.tokens_per_second * time / made.tokens)
    return setting, RunPoint(row.id, f"{row.engine_version} {row.group}", row.context_tokens or 0, off)
