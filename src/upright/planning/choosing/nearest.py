"""The nearest plans that fit, where the one that was asked for does not.

Settings first (the same weights), then other artifacts of the model. Nothing is offered that was not checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from upright.base.units import format_memory, format_size, format_tokens
from upright.engines import ENGINES
from upright.facts.records.model import Model
from upright.facts.records.plan import Goal, Nearest, Plan
from upright.planning.choosing.goal_checks import fp8_images
from upright.planning.choosing.rule import faithful
from upright.planning.placement.asked_layers import FILLED
from upright.planning.placement.devices import HOST, sold_with
from upright.planning.placement.engine_support import supports_dcp
from upright.planning.placement.gpu_memory_utilization import OPTION, gpu_share
from upright.planning.placement.plan_limits import rounded_down

Planner = Callable[[Model, Goal], Plan]
MOST = 5
_STEP_TOKENS = 1024
_IN_BF16 = "--kv-dtype bf16"
SMALL_CONTEXT_TOKENS = 8_192
GPU_COUNTS = (2, 4, 8, 16)
SMALLER_CACHE = {"bf16": "fp8", "f16": "q8_0"}
"""The next cache type below an engine's default."""
RANK_OPTIONS = ("tensor_parallel", "pipeline_parallel", "data_parallel", "decode_context_parallel")
# Wishes that were made for one artifact: another one has ways of its own.
ARTIFACT_OPTIONS = ("engine", "engine_version", "kv_dtype", "memory_fraction", "place", *RANK_OPTIONS)


class Larger(NamedTuple):
    """The same box with more of something."""

    gpus: Callable[[int, Goal], Plan | None]
    """The best plan with so many; None if their memory holds no build."""
    ram: Callable[[int], Planner]
    """With so many GiB."""


class _Change(NamedTuple):
    words: str
    goal: Goal
    options: tuple[str, ...]


def nearest(
    plan: Plan, model: Model, artifacts: Sequence[Model], planner: Planner, larger: Larger | None
) -> tuple[Nearest, ...]:
    """At most a handful, in the order a person should consider them."""
    if any(objection.code == "engine-too-old" for objection in plan.objections):
        return _with_newer(plan, model, artifacts, planner, larger)
    alternatives = []
    within_reach = plan.kv.capacity_tokens > 0
    corrected = tuple(_corrections(plan))
    # A larger share of the GPUs may bring weights within reach; the other settings are for those that are.
    settable = within_reach or plan.memory_fraction is not None
    for change in (*corrected, *(_changes(plan) if settable and not corrected else ())):
        done = planner(model, change.goal)
        if _granted(done):
            alternatives.append(_nearest(done, change.words, change.options or _ranks(change, done), None))
    if not alternatives and within_reach:
        alternatives += _smaller_context(plan, model, planner)
    if not alternatives:
        others = (other for other in artifacts if other.name != plan.model)
        offers = [offer for other in others for offer in _other_artifact(plan, other, planner)]
        alternatives = sorted(offers, key=lambda offer: bool(offer.options))  # what fits as asked comes first
    if not within_reach and larger is not None and not corrected:
        more = (*_more_ram(plan, model, larger), *_more_gpus(plan, larger))
        alternatives = [*alternatives[: MOST - len(more)], *more]
    slower = tuple(_slower(plan, model, planner))
    return (*alternatives[: MOST - len(slower)], *slower)


def _granted(done: Plan) -> bool:
    """A speed that nobody knows grants no wish for one."""
    return done.fits and (done.goal.minimum_tokens_per_second is None or done.speed is not None)


def _with_newer(
    plan: Plan, model: Model, artifacts: Sequence[Model], planner: Planner, larger: Larger | None
) -> tuple[Nearest, ...]:
    """A version that is too old is no way whatever else changes: a newer one, and what that needs."""
    from upright.planning.choosing.releases import oldest_usable_version

    version = oldest_usable_version(plan)
    if version is None:
        return ()
    named = () if plan.goal.engine else ("--engine", plan.engine)
    change_text, options = f"{plan.engine} {version}", (*named, "--engine-version", version)
    done = planner(model, plan.goal.model_copy(update={"engine": plan.engine, "engine_version": version}))
    if done.fits:
        return (_nearest(done, change_text, options, None),)
    return tuple(
        alternative
        if alternative.artifact
        else alternative.model_copy(
            update={"change": f"{change_text}, {alternative.change}", "options": (*options, *alternative.options)}
        )
        for alternative in nearest(done, model, artifacts, planner, larger)
    )


def _corrections(plan: Plan) -> Iterator[_Change]:
    """Where a wish itself is in the way: the same without it."""
    codes, goal = {objection.code for objection in plan.objections}, plan.goal
    if codes & {"no-dp", "dp-not-divisor"}:
        yield _Change("one copy of attention", goal.model_copy(update={"data_parallel": None}), ("--dp", "1"))
    if "too-few-gpus" in codes and goal.pipeline_parallel not in (None, 1):
        yield _Change("no stages", goal.model_copy(update={"pipeline_parallel": None}), ("--pp", "1"))
    if codes & {"heads-not-divisible", "too-few-gpus"}:
        yield _Change("ranks as the heads and GPUs allow", goal.model_copy(update={"tensor_parallel": None}), ())
    if codes & {"dcp-not-divisor", "no-dcp"}:
        free = goal.model_copy(update={"decode_context_parallel": None, "tensor_parallel": plan.parallel.tensor})
        yield _Change("a cache that as many ranks share as can", free, ())
    if "cache-not-supported" in codes or any(no.remedy == _IN_BF16 for no in plan.objections):
        bf16 = goal.model_copy(update={"kv_dtype": "bf16"})
        yield _Change("a cache in bf16", bf16, tuple(_IN_BF16.split()))
        for engine, image in ((name, image) for name in ENGINES for image in fp8_images(name)[-1:]):
            patched = goal.model_copy(update={"image": image, "engine": engine})
            named = ("--engine", engine) if goal.engine not in (None, engine) else ()
            options = (*named, "--kv-dtype", goal.kv_dtype or "fp8", "--image", image)
            yield _Change(f"the fp8 cache with a community image, --image {image}", patched, options)
    if "does-not-fit" in codes and goal.place not in (None, FILLED):
        filled = goal.model_copy(update={"place": FILLED})
        yield _Change("as many layers of experts as there is room for", filled, ("--place", FILLED))
    if "no-ranks" in codes:
        yield _Change("whole layers on devices", goal.model_copy(update=dict.fromkeys(RANK_OPTIONS)), ())


def _ranks(change: _Change, done: Plan) -> tuple[str, ...]:
    """What the planner chose for a wish that was taken back."""
    if done.memory_fraction is None:
        return ()
    if change.goal.tensor_parallel is None:
        return ("--tp", str(done.parallel.tensor))
    return ("--dcp", str(done.parallel.decode_context))


def _changes(plan: Plan) -> Iterator[_Change]:
    """One setting at a time, then all of them."""
    goal = plan.goal
    labels: list[str] = []
    options: list[str] = []
    together: dict[str, object] = {}
    able = supports_dcp(plan.engine, plan.engine_version)
    if able and goal.decode_context_parallel not in (None, plan.parallel.tensor):
        together["decode_context_parallel"] = plan.parallel.tensor
        labels.append(f"DCP {plan.parallel.tensor}")
        options += ["--dcp", str(plan.parallel.tensor)]
        yield _Change(labels[-1], goal.model_copy(update=dict(together)), tuple(options))
    share = gpu_share(plan.engine)
    if share is not None and plan.memory_fraction is not None and plan.memory_fraction < (highest := share.highest):
        change: dict[str, object] = {"memory_fraction": highest, "engine": plan.engine}
        together |= change
        labels.append(f"--gpu-memory-utilization {highest}")
        options += [OPTION, str(highest)]
        yield _Change(labels[-1], goal.model_copy(update=change), (OPTION, str(highest)))
    smaller = SMALLER_CACHE.get(plan.kv.dtype)
    if smaller is not None:
        change = {"kv_dtype": smaller}
        together |= change
        labels.append(f"cache in {smaller}")
        options += ["--kv-dtype", smaller]
        yield _Change(labels[-1], goal.model_copy(update=change), ("--kv-dtype", smaller))
    if len(labels) > 1:
        yield _Change(" and ".join(labels), goal.model_copy(update=together), tuple(options))
    if goal.users > 1:
        yield _Change("one user", goal.model_copy(update={"users": 1}), ("--users", "1"))


def _smaller_context(plan: Plan, model: Model, planner: Planner) -> Iterator[Nearest]:
    alone = plan.goal.users == 1
    largest = rounded_down(
        plan.largest_context_tokens if alone else plan.kv.low_tokens // plan.goal.users, _STEP_TOKENS
    )
    limit = model.architecture.context_limit_tokens or largest
    largest = min(largest, limit, plan.context_tokens)
    if largest < _STEP_TOKENS:
        return
    done = planner(model, plan.goal.model_copy(update={"context_tokens": largest, "engine": plan.engine}))
    if _granted(done):
        yield _nearest(done, f"a context of {format_tokens(largest)}", ("--context", str(largest)), None)


def _other_artifact(plan: Plan, other: Model, planner: Planner) -> Iterator[Nearest]:
    goal = plan.goal.model_copy(update=dict.fromkeys(ARTIFACT_OPTIONS))
    options: tuple[str, ...] = ()
    done = planner(other, goal)
    if not done.fits:
        context = min(plan.context_tokens, SMALL_CONTEXT_TOKENS)
        options = ("--context", str(context))
        done = planner(other, goal.model_copy(update={"context_tokens": context}))
    if _granted(done):
        yield _nearest(done, _artifact_words(done, other), options, other.source)


def _slower(plan: Plan, model: Model, planner: Planner) -> Iterator[Nearest]:
    """The speed that can be expected, where only the one that was asked for stands in the way."""
    if plan.speed is None or "too-slow" not in {objection.code for objection in plan.objections}:
        return
    expected = plan.speed.decode.best or plan.speed.decode.low
    speed = f"{math.floor(expected * 10) / 10 if expected < 10 else math.floor(expected):g}"
    done = planner(model, plan.goal.model_copy(update={"minimum_tokens_per_second": float(speed)}))
    if _granted(done):
        yield _nearest(done, f"{speed} tok/s, which can be expected", ("--min-speed", speed), None)


def _more_ram(plan: Plan, model: Model, larger: Larger) -> Iterator[Nearest]:
    """Where experts in system RAM are all that is too much; how much is asked for where it is not specified."""
    short = [no for no in plan.objections if no.code == "does-not-fit"]
    if [no.device for no in short] != [HOST] or len(plan.objections) > 1:
        return
    have = next(budget.capacity_bytes for budget in plan.budgets if budget.device == HOST)
    gib = sold_with(have + (short[0].short_bytes or 0))
    done = larger.ram(gib)(model, plan.goal)
    if _granted(done):
        yield _nearest(done, f"{gib} GB of system RAM", ("--ram", f"{gib}GB"), None)


def _more_gpus(plan: Plan, larger: Larger) -> Iterator[Nearest]:
    have = sum(budget.device.startswith("gpu") and budget.capacity_bytes > 0 for budget in plan.budgets)
    goal = Goal(context_tokens=plan.goal.context_tokens, users=plan.goal.users, use=plan.goal.use)
    for count in GPU_COUNTS if have else ():
        if count > have:
            done = larger.gpus(count, goal)
            if done is not None and _granted(done):
                change_text = f"{done.model} on {count} such GPUs instead of {have}, with {done.engine}"
                yield _nearest(done, change_text, (), None)
                return


def _artifact_words(plan: Plan, other: Model) -> str:
    host = next((line.bytes for line in plan.ledger if line.device == "host" and line.term == "experts"), 0)
    where = f"{format_memory(host)} of experts offloaded to CPU" if host else "all of it in GPU memory"
    if not any(budget.device.startswith("gpu") for budget in plan.budgets):
        where = "in system RAM"
    lost = "" if faithful(other) else ", a lower-bit quant"
    return f"{other.name} ({format_size(other.tensor_bytes)}{lost}) with {plan.engine}, {where}"


def _nearest(plan: Plan, words: str, options: tuple[str, ...], artifact: str | None) -> Nearest:
    return Nearest(
        change=words,
        options=options,
        artifact=artifact,
        engine=plan.engine,
        context_tokens=plan.context_tokens,
        capacity_tokens=plan.kv.low_tokens,
    )
