"""Which configuration is the best: the whole rule, as docs/recommending.md says it.

1. What was asked for is met: a plan without objections stands before one with them.
2. Weights that have lost much stand behind all others.
3. A known speed stands before one that is not known; and what is expected to miss a floor of the use behind what is
   not: a coding agent waits for every token.
4. Experts in system RAM whose prefill was not measured stand behind what is whole on the GPUs, and behind them those of
   which a turn, by the slow end of its band, takes longer than the floors allow together.
5. Weights of which nothing was measured to be lost, native or equal to native, stand before those that are near.
6. Of weights alike the larger build, unless it is more than a third slower than the fastest; of weights that have lost
   much always the larger.
7. Of that build the fastest, by constants that were fitted on this GPU where there are any. Whatever is expected
   within the fastest one's band ties with it, and then what is installed, what leaves fewer GPUs idle and the
   better-proved engine win.

Steps 1 to 5 sort; 6 and 7 choose from what is left, again and again, so that the order is total.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

from upright.engines import engine_named
from upright.facts.catalog.fidelity import LEVELS, fidelity_of
from upright.facts.catalog.rows.model import Fidelity
from upright.facts.catalog.versions import in_range
from upright.facts.records.box import Box
from upright.facts.records.model import MlaAttention, Model
from upright.facts.records.plan import Goal, Plan, Rate, Use
from upright.planning.placement.asked_layers import NO_EXPERT_LAYERS
from upright.planning.speed.prefill_reach import from_siblings
from upright.planning.speed.rows import speed_row
from upright.planning.speed.turns import ANSWER_TOKENS, FIRST_PROMPT_TOKENS, NEW_TOKENS, expected_seconds

FLOOR_TOKENS_PER_SECOND: dict[Use, float] = {"coding-agent": 20.0}
"""Decode of one user, expected; `--min-speed` takes its place."""
FLOOR_FIRST_ANSWER_SECONDS: dict[Use, float] = {"coding-agent": 60.0}
"""Until a prompt of 20,000 tokens has been read; `--first-answer` takes its place."""
SLOWER = 1 / 3
"""How much slower than the fastest build of its class a larger one may be."""
ALIKE_BYTES = 0.1
"""Builds of sizes that differ by less are of one size."""
SHARING_COSTS = 0.02
"""Each doubling of DCP is one more setting to prove: it must be so much faster."""
WHOLE_ANSWER_TOKENS = 1_000

_WITH_NVFP4 = ">=10"
NOT_KNOWN = "engine-not-known"
NOT_UNDERSTOOD = "not-understood"
_BY_A_SETTING = ("pool-too-small", "constraint")
"""Objections that another context or split ends; for the others the box is too small."""
_BY_A_WISH = ("heads-not-divisible", "too-few-layers", "dcp-not-divisor", "no-dcp", "dp-not-divisor", "no-dp")
"""Wishes that no size of the weights could meet: what else is short is short by them."""
_HOPELESS = (
    *("wrong-format", "no-ranks", "no-gpu", "no-kernels", "ik-only-types", "too-few-gpus"),
    *(NO_EXPERT_LAYERS, NOT_KNOWN),
)


class Way:
    """One plan of one artifact, and what the rule looks at."""

    def __init__(self, plan: Plan, artifact: Model, box: Box, fidelity: Fidelity) -> None:
        self.plan, self.artifact, self.fidelity = plan, artifact, fidelity
        self._box, self._shown = box, plan.box_in_use(box)

    @cached_property
    def order(self) -> tuple[object, ...]:
        """Steps 1 to 5; the less the better. Of what does not fit, what is nearest to it."""
        plan = self.plan
        if plan.fits:
            return (False, *self.drawbacks, self.staged, self.lost)
        short = 0 if _by_a_setting(plan) else max(objection.short_bytes or 0 for objection in plan.objections)
        unread = any(objection.code == "wrong-format" for objection in plan.objections)
        return (True, unread, hopeless(plan), not _by_a_setting(plan), self.lost > 1, self.staged, short, self.lost)

    @cached_property
    def drawbacks(self) -> tuple[bool, bool, int, int]:
        """Steps 2 to 4."""
        return (self.lost > 1, self.speed is None, missed_floors(self.plan), self.unread)

    @property
    def flawless(self) -> bool:
        """Whether only nearer weights could stand before it."""
        return self.plan.fits and not any(self.drawbacks) and not self.staged

    @property
    def lost(self) -> int:
        return lost_much(self.fidelity)

    @cached_property
    def speed(self) -> Rate | None:
        """What the use goes by; None where it is not known."""
        return use_rate(self.plan)

    @property
    def expected(self) -> float:
        return expected(self.speed) if self.speed else 0.0

    @property
    def unread(self) -> int:
        """Of experts in system RAM: 2 if a turn may take longer than the use's floors allow together, or is not known;
        1 if no prompt of the like was measured.
        """
        if not in_system_ram(self.plan):
            return 0
        speed = self.plan.speed
        if speed is None or speed.prompt is None:
            return 2
        most = floor_turn_seconds(self.plan.goal)
        warm = [turn.warm.high if turn.warm else math.inf for turn in speed.turns[:1]]
        return 2 if any(seconds > most for seconds in warm) else int(from_siblings(speed))

    @property
    def staged(self) -> bool:
        """Pipeline stages that nobody asked for: no constant prices them yet."""
        plan = self.plan
        return not plan.goal.spread_asked and plan.parallel.pipeline > 1

    @property
    def emulated(self) -> bool:
        """NVFP4 on GPUs before Blackwell or of AMD, which cannot multiply it: weights are unpacked for every step."""
        capability = next((gpu.compute_capability for gpu in self._shown.gpus if gpu.compute_capability), None)
        stored = (self.artifact.quantisation or "").upper()
        return "NVFP4" in stored and capability is not None and not in_range(capability, _WITH_NVFP4)

    @cached_property
    def fitted_here(self) -> bool:
        """Whether runs on this GPU are among those that the constants of its speed were fitted on."""
        speed, gpus = self.plan.speed, {gpu.row for gpu in self._shown.gpus}
        if speed is None or not gpus or None in gpus:
            return False
        home = speed_row(speed.row).home
        return speed.basis == "measured" or (home is not None and gpus <= set(home.gpus))

    @cached_property
    def tie(self) -> tuple[object, ...]:
        """What decides between ways that are as fast, down to the name."""
        plan = self.plan
        installed = any(install.engine == plan.engine for install in self._box.engines)
        return (
            not installed,
            self.idle_gpus,
            plan.parallel.expert,
            self.emulated,
            LEVELS.index(self.fidelity.level),
            _standing(plan, self.artifact),
            -self.expected * (1 - SHARING_COSTS) ** math.log2(plan.parallel.decode_context),
            plan.parallel.decode_context,
            self.artifact.tensor_bytes,
            plan.engine,
            plan.goal.image or "",
            plan.kv.dtype,
            self.artifact.source,
            plan.parallel.tensor,
            plan.parallel.pipeline,
            plan.parallel.data,
        )

    @property
    def idle_gpus(self) -> int:
        goal = self.plan.goal
        if self.plan.memory_fraction is None or goal.spread_asked:
            return 0
        return max(0, len(self._box.gpus) - self.plan.parallel.ranks)


def ordered(ways: Iterable[Way]) -> list[Way]:
    """All of them, best first, whatever order they come in."""
    classes: dict[tuple[object, ...], list[Way]] = {}
    for way in ways:
        classes.setdefault(way.order, []).append(way)
    return [way for order in sorted(classes) for way in _chosen_in_turn(classes[order])]


def _chosen_in_turn(alike: list[Way]) -> Iterator[Way]:
    left = list(alike)
    while left:
        first = min(tied(of_one_size(left)), key=lambda way: way.tie)
        left.remove(first)
        yield first


def of_one_size(ways: Sequence[Way]) -> list[Way]:
    """Those of the largest build that is not more than a third slower than the fastest."""
    lossy, fastest = ways[0].lost > 1, max(way.expected for way in ways)
    most = max((way.artifact.tensor_bytes for way in ways if way.fidelity.level == "native"), default=math.inf)
    sizes = {id(way): min(way.artifact.tensor_bytes, most) for way in ways}  # no build is larger than the native one
    largest = max(sizes[id(way)] for way in ways if lossy or way.expected >= (1 - SLOWER) * fastest)
    apart = 0 if lossy else ALIKE_BYTES * largest
    return [way for way in ways if abs(sizes[id(way)] - largest) <= apart]


def of_like_size(one: Model, other: Model) -> bool:
    return abs(one.tensor_bytes - other.tensor_bytes) <= ALIKE_BYTES * max(one.tensor_bytes, other.tensor_bytes)


def tied(ways: Sequence[Way]) -> list[Way]:
    """The fastest, and what is expected to lie in its band: of what was fitted on such GPUs, if anything was."""
    ways = [way for way in ways if way.fitted_here] or ways
    mark = max(ways, key=lambda way: (way.expected, way.speed.low if way.speed else 0.0))
    return list(ways) if mark.speed is None else [way for way in ways if way.expected >= mark.speed.low]


def lost_much(fidelity: Fidelity) -> int:
    """0: nothing was measured to be lost; 1: little; 2: much."""
    return max(0, LEVELS.index(fidelity.level) - 1)


def in_system_ram(plan: Plan) -> bool:
    return any(place.device == "host" for place in plan.expert_places)


def missed_floors(plan: Plan) -> int:
    """Floors of the use that this plan is known to miss."""
    speed, goal = plan.speed, plan.goal
    if speed is None:
        return 0
    slow = expected(speed.decode) < floor_tokens_per_second(goal)
    return int(slow) + int(first_answer(plan) > floor_seconds(goal))


def missed_floor_words(plan: Plan) -> str | None:
    """What of the use's floors this plan is expected to miss, and what moves them; None if nothing."""
    speed, goal, missed = plan.speed, plan.goal, []
    if speed is None or not missed_floors(plan):
        return None
    if (rate := expected(speed.decode)) < (least := floor_tokens_per_second(goal)):
        missed.append(f"{rate:.3g} tok/s where {least:g} are wanted (--min-speed)")
    if (seconds := first_answer(plan)) > floor_seconds(goal):
        read = f"{seconds:,.0f} s to read a first prompt of {FIRST_PROMPT_TOKENS:,} tokens"
        missed.append(f"{read} where {floor_seconds(goal):g} s are wanted (--first-answer)")
    return " and ".join(missed)


def floor_tokens_per_second(goal: Goal) -> float:
    if goal.minimum_tokens_per_second is not None:
        return goal.minimum_tokens_per_second
    return FLOOR_TOKENS_PER_SECOND.get(goal.use, 0.0)


def floor_seconds(goal: Goal) -> float:
    if goal.first_answer_seconds is not None:
        return goal.first_answer_seconds
    return FLOOR_FIRST_ANSWER_SECONDS.get(goal.use, float("inf"))


def floor_turn_seconds(goal: Goal) -> float:
    """A turn whose prefix is cached, if it were read and answered as slowly as the floors allow."""
    rate = floor_tokens_per_second(goal)
    return ANSWER_TOKENS / rate + NEW_TOKENS * floor_seconds(goal) / FIRST_PROMPT_TOKENS if rate else math.inf


def first_answer(plan: Plan) -> float:
    """Seconds that are expected until a first prompt was read; 0 where that is not known.

    Nor is it of experts in system RAM by what siblings reach: the size of their batch decides, up to eight times.
    """
    speed = plan.speed
    if speed is None or (in_system_ram(plan) and from_siblings(speed)):
        return 0.0
    if speed.turns:
        return expected_seconds(speed.turns[0].first_answer)
    return 0.0 if speed.prompt is None else FIRST_PROMPT_TOKENS / expected(speed.prompt)  # records of older schemas


def expected(rate: Rate) -> float:
    return rate.best if rate.best is not None else rate.low


def use_rate(plan: Plan) -> Rate | None:
    """For agents and chats what one user sees, for batches what all get, for documents the whole job if known."""
    speed = plan.speed
    if speed is None:
        return None
    if plan.goal.use == "batch":
        return speed.together
    if plan.goal.use == "long-documents":
        return _whole_job(plan, speed.prompt, speed.full)
    return speed.decode


def _whole_job(plan: Plan, prompt: Rate | None, full: Rate) -> Rate | None:
    """Answered tokens a second of reading a full context once and answering it."""
    if prompt is None:
        return None

    def rate(end: Callable[[Rate], float]) -> float:
        return WHOLE_ANSWER_TOKENS / (plan.context_tokens / end(prompt) + WHOLE_ANSWER_TOKENS / end(full))

    return Rate(best=rate(expected), low=rate(lambda found: found.low), high=rate(lambda found: found.high))


def hopeless(plan: Plan) -> bool:
    """Whether no other setting or size would end what stands against it."""
    return any(objection.code in _HOPELESS for objection in plan.objections)


def faithful(model: Model) -> bool:
    """Whether so little is lost that it may be taken for the model."""
    return fidelity_of(model).level != "lossy"


def _by_a_setting(plan: Plan) -> bool:
    codes = [objection.code for objection in plan.objections]
    return any(code in _BY_A_WISH for code in codes) or all(code in _BY_A_SETTING for code in codes)


def _standing(plan: Plan, artifact: Model) -> int:
    """How well an engine is proved; for experts on both sides of latent attention an engine may have its own."""
    hybrid = {place.device == "host" for place in plan.expert_places} == {True, False}
    latent = any(isinstance(kind, MlaAttention) for kind in artifact.architecture.attention)
    engine = engine_named(plan.engine)
    if hybrid and latent and engine.standing_hybrid is not None:
        return engine.standing_hybrid
    return engine.standing
