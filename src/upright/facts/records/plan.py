"""What would happen: bytes on devices, tokens that fit, and what stands in the way."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator

from upright.facts.records.base import Basis, Part, Reason, Record, Upgrade, fields_added
from upright.facts.records.box import Box
from upright.facts.records.names import SafeName

Use = Literal["coding-agent", "chat", "batch", "long-documents"]


_MOST_COUNTED = 1 << 40


def _countable(number: int) -> int:
    if abs(number) > _MOST_COUNTED:
        raise ValueError("nobody counts so far")
    return number


Count = Annotated[int, AfterValidator(_countable)]
"""Of tokens, users or ranks: products of larger ones leave what a float holds."""


class Goal(Part):
    """What the person wants from the deployment. What is None is the planner's to choose."""

    context_tokens: Count | None = None
    """Tokens of context a user needs; None means the safe start: 65,536, or less if the model has less."""
    users: Count = 1
    """Requests served at once at that context."""
    use: Use = "coding-agent"
    """The shape of the load."""
    minimum_tokens_per_second: float | None = None
    """Slowest acceptable decode for one user; None means any."""
    first_answer_seconds: float | None = None
    """What a prompt of 20,000 tokens may take to be read; None is what the use expects."""
    engine: SafeName | None = None
    """Only this engine."""
    engine_version: SafeName | None = None
    """Only this version of it; decides which overhead rows apply."""
    kv_dtype: SafeName | None = None
    """Only this cache type, as the engine spells it."""
    tensor_parallel: Count | None = None
    """Only this many ranks of tensor parallelism."""
    pipeline_parallel: Count | None = None
    """Only this many pipeline stages."""
    data_parallel: Count | None = None
    """Only this many replicas of attention, whose ranks share the experts."""
    decode_context_parallel: Count | None = None
    """Only this many ranks to share one copy of the cache."""
    expert_parallel: bool | None = None
    """Whole experts on ranks, or a slice of each; None is the planner's to choose."""
    memory_fraction: float | None = None
    """vLLM's --gpu-memory-utilization, SGLang's --mem-fraction-static."""
    sequences: Count | None = None
    """Requests that the engine may run at once (vLLM's --max-num-seqs); None leaves it to the recipe."""
    batched_tokens: Count | None = None
    """Tokens that it computes at once (vLLM's --max-num-batched-tokens); None leaves it to the recipe."""
    place: SafeName | None = None
    """Layers of routed experts on the GPUs: none, filled, or so many on each (3+3); None fills them too."""
    draft: bool = False
    """Plan room for a draft model (EAGLE-3, MTP)."""
    acceptance: float | None = None
    """Share of a draft's guesses that the model accepts on this load, if somebody measured it; never assumed."""
    image: SafeName | None = None
    """The container image that the engine comes from: its patches decide what this silicon can do."""
    nodes: int = 1
    """Boxes of this kind that hold one model together."""
    link: str | None = None
    """The network between them, a row of the catalogue's links; None if there is only one."""

    @property
    def ranks_asked(self) -> bool:
        """Whether a number of ranks, stages, replicas or sharing ranks was asked for."""
        counts = (self.tensor_parallel, self.pipeline_parallel, self.data_parallel, self.decode_context_parallel)
        return any(counts)

    @property
    def spread_asked(self) -> bool:
        """Whether the planner is not free to choose ranks, stages and replicas."""
        return self.nodes > 1 or any((self.tensor_parallel, self.pipeline_parallel, self.data_parallel))


class LedgerLine(Part):
    """Bytes of one term on one device. Exact terms have low == bytes == high."""

    device: SafeName
    """`gpu0`, `gpu1`, ... or `host`."""
    term: SafeName
    """weights, kv_cache, compute, context, ... ; `upright explain` knows each."""
    bytes: int
    """The planner's best figure."""
    low_bytes: int
    """Lower end of the band."""
    high_bytes: int
    """Upper end of the band."""
    basis: Basis
    """Where the figure comes from."""
    why: str
    """The arithmetic or the source, in words."""


class DeviceBudget(Part):
    """What one device offers."""

    device: SafeName
    """`gpu0`, ... or `host`."""
    capacity_bytes: int
    """Bytes the engine may use there."""
    basis: Basis
    """Where the figure comes from."""
    why: str
    """How the budget was reached."""


class KvCache(Part):
    """The key-value cache that the plan provides."""

    dtype: str
    """Stored type, as the engine spells it."""
    bytes_per_token: int | float | None
    """What grows with every token, all layers, one copy of the cache; None if the model is not understood."""
    low_bytes_per_token: int | float | None = None
    """The least that it can be; the same as bytes_per_token where that is known."""
    high_bytes_per_token: int | float | None = None
    """The most that it can be; None if nothing bounds it."""
    bytes_per_sequence: int = 0
    """What a sequence takes whatever its length: one recurrent state, and sliding windows once full."""
    state_bytes_per_sequence: int = 0
    """One recurrent state of a sequence, all layers."""
    window_bytes_per_sequence: int = 0
    """Sliding windows and chunks of a sequence once full, all layers."""
    states_per_sequence: int = 1
    """States that the engine keeps of each sequence: more than one where prefixes are cached."""
    copies: int = 1
    """How often the engine keeps the same token: ranks that replicate the cache, less those that share it."""
    capacity_tokens: int
    """Tokens that fit in what is left after every other term, expected."""
    low_tokens: int = 0
    """Tokens that are sure to fit: the lower end of the band. Plans promise no more than this."""
    high_tokens: int = 0
    """Upper end of the band."""
    planned_tokens: int
    """Tokens that the plan's setting asks for: context times users."""
    formula: str
    """How bytes_per_token came about."""


class Parallel(Part):
    """How the model is spread over GPUs."""

    tensor: int = 1
    """Ranks that each hold a slice of every layer."""
    pipeline: int = 1
    """Stages that each hold some of the layers."""
    decode_context: int = 1
    """Decode context parallel (DCP): ranks over which one copy of the KV cache is sharded."""
    nodes: int = 1
    """Boxes that the ranks are spread over, as many on each."""
    expert: bool = False
    """Whether ranks hold whole experts (expert parallelism) instead of a slice of each."""
    data: int = 1
    """Replicas of attention (data parallelism), each with its own users and cache; experts lie on all their ranks."""

    @property
    def ranks(self) -> int:
        """GPUs in all."""
        return self.tensor * self.pipeline * self.data


class ExpertPlace(Part):
    """Where the routed experts of some layers live (hybrid plans)."""

    device: SafeName
    """`gpu0`, ... or `host`."""
    layers: tuple[int, ...]
    """Layer numbers."""


class LayerPlace(Part):
    """How many of the model's layers, one after the other, a GPU holds."""

    device: SafeName
    """`gpu0`, ..."""
    layers: int
    """Layers; the output matrix follows the last of them."""


class Objection(Part):
    """Something that stands in the way: data, not an exception."""

    code: str
    """does-not-fit, context-too-long, engine-missing, ..."""
    message: Reason
    """One sentence for people."""
    device: SafeName | None = None
    """Where, if it is about a device."""
    short_bytes: int | None = None
    """How many bytes are missing."""
    remedy: Reason | None = None
    """What would help, as a command or a setting."""


class Note(Part):
    """Something worth knowing that does not stand in the way."""

    code: str
    """unused-memory, prove-first, tight-fit, ..."""
    message: Reason
    """One sentence for people."""
    remedy: Reason | None = None
    """What to set, if something can be."""


class Nearest(Part):
    """A change after which the plan fits, checked by planning it."""

    change: str
    """What to change, in words."""
    options: tuple[str, ...] = ()
    """The same as words of `upright plan`."""
    artifact: str | None = None
    """Another artifact of the model, if that is the change."""
    engine: str
    """The engine of the checked plan."""
    context_tokens: int
    """Context for each user then."""
    capacity_tokens: int
    """Tokens that fit then."""


class Rung(Part):
    """One setting at a time, from the safe start up to the goal."""

    name: str
    """safe-start, context, draft, ..."""
    context_tokens: int
    """Context at this rung."""
    draft: bool = False
    """Whether speculation is on."""
    vision: bool = False
    """Whether images are served."""
    fits: bool
    """Whether memory allows it, by the same arithmetic."""
    why: str
    """What this rung adds."""


class SpeedTerm(Part):
    """A part of one decode step, or of reading a prompt."""

    step: Literal["decode", "prompt"]
    """Which of the two."""
    term: SafeName
    """layers, all-reduce, exchange, weights, cache, draft, memory, ..."""
    milliseconds: float
    """How long it takes."""
    why: str
    """What is done meanwhile, with its figures."""


class Rate(Part):
    """Tokens a second, with a band."""

    best: float | None
    """The figure to plan with; None if only the band is known."""
    low: float
    """Lower end."""
    high: float
    """Upper end."""


class Seconds(Part):
    """A time, with a band."""

    best: float | None
    """The figure to plan with; None if only the band is known."""
    low: float
    """The shortest."""
    high: float
    """The longest."""


class Turn(Part):
    """What a person waits for; where several ask at once, the last of them."""

    users: int
    """Who ask at once."""
    first_answer: Seconds
    """Until 20,000 tokens were read, or the plan's context if that is shorter."""
    warm: Seconds | None
    """A turn with half of the context cached: 1,200 new tokens, 500 answered; None if a processor reads so few."""
    full_context: Seconds
    """Until a whole context was read again, of which nothing is cached."""
    basis: Basis
    """The weaker one of prefill and decode."""


class Speed(Part):
    """How fast the plan would be."""

    context_tokens: int
    """Tokens in each user's cache meanwhile: half of the plan's context."""
    decode: Rate
    """Tokens a second that each user sees."""
    empty: Rate
    """The same with an empty cache."""
    full: Rate
    """The same with all of the plan's context in use."""
    together: Rate
    """Tokens a second of all users."""
    prompt: Rate | None
    """Tokens a second while such a context is read; None where neither such prompts nor siblings tell."""
    prompt_basis: Basis | None = None
    """measured by prompts on this silicon, derived if from other models or from compute and siblings."""
    prompt_why: str | None = None
    """Where the band of `prompt` comes from."""
    turns: tuple[Turn, ...] = ()
    """Seconds for a turn: of one user, and of the goal's if they are more; empty where prefill is not known."""
    layer_worth: float | None = None
    """Tokens a second that one more layer of experts on the GPUs would bring; None if all are there."""
    terms: tuple[SpeedTerm, ...]
    """Every part of a step, and of the prompt."""
    row: str
    """The catalogue's row that holds the constants."""
    basis: Basis
    """measured if constants were fitted on this silicon and wires, derived if they come from elsewhere."""
    why: str
    """Where the band comes from."""


def _from_1(content: dict[str, Any]) -> dict[str, Any]:
    """Schema 1 knew no speed: it stays unknown."""
    return content


def _from_2(content: dict[str, Any]) -> dict[str, Any]:
    """Schema 2 knew one box."""
    return content


def _from_3(content: dict[str, Any]) -> dict[str, Any]:
    """Schema 3 took every model for understood, and named no bounds."""
    kv = dict(content["kv"])
    kv.setdefault("low_bytes_per_token", kv["bytes_per_token"])
    kv.setdefault("high_bytes_per_token", kv["bytes_per_token"])
    return {**content, "kv": kv}


def _from_4(content: dict[str, Any]) -> dict[str, Any]:
    """Schema 4 divided every expert over all ranks."""
    return content


class Plan(Record):
    """One way to stand this model on this box."""

    kind: ClassVar[str] = "plan"
    schema_version: ClassVar[int] = 11
    upgrades: ClassVar[Mapping[int, Upgrade]] = {
        1: _from_1, 2: _from_2, 3: _from_3, 4: _from_4, **dict.fromkeys((5, 6, 7, 8, 9, 10), fields_added),
    }  # fmt: skip

    engine: SafeName
    """Which engine."""
    engine_version: SafeName | None
    """Its version, if one is installed or was asked for."""
    goal: Goal
    """What was asked."""
    model: SafeName = ""
    """Name of the artifact."""
    box: SafeName = ""
    """Name of the machine."""
    context_tokens: int
    """Context for each user."""
    parallel: Parallel = Parallel()
    """How the model is spread over GPUs."""
    gpus: tuple[int, ...] = ()
    """Of a box with GPUs of several kinds, the box's numbers of those that are used: gpu0 is the first of them."""
    layer_places: tuple[LayerPlace, ...] = ()
    """Layers of each GPU, where they are of several kinds; empty where layers are spread evenly."""
    memory_fraction: float | None = None
    """The share of each GPU that the engine is told to take; None if it takes no such setting."""
    ubatch_tokens: int | None = None
    """Tokens the engine computes at once."""
    expert_places: tuple[ExpertPlace, ...] = ()
    """Where routed experts live, if not all on the GPUs."""
    budgets: tuple[DeviceBudget, ...]
    """What each device offers."""
    ledger: tuple[LedgerLine, ...]
    """Every byte, by device and term."""
    kv: KvCache
    """The cache."""
    largest_context_tokens: int = 0
    """Longest context for one user alone: capacity, or the model's limit."""
    users_at_context: int = 0
    """Users who can each fill the plan's context at once."""
    speed: Speed | None = None
    """How fast; None if no constants are known for the like."""
    not_understood: tuple[str, ...] = ()
    """Keys of the model's configuration that decide memory and that nobody understood; then nothing is promised."""
    objections: tuple[Objection, ...] = ()
    """Empty means that it fits."""
    notes: tuple[Note, ...] = ()
    """What is worth knowing."""
    nearest: tuple[Nearest, ...] = ()
    """What would fit, if this does not."""
    rungs: tuple[Rung, ...] = ()
    """The safe start and the tuning steps after it."""

    @property
    def fits(self) -> bool:
        return not self.objections

    def box_in_use(self, box: Box) -> Box:
        """The box that was planned for, as the engine sees it: without the GPUs that stay idle."""
        return box.with_only(self.gpus) if self.gpus else box

    def used_bytes(self, device: str) -> int:
        return sum(line.bytes for line in self.ledger if line.device == device)

    def high_bytes(self, device: str) -> int:
        """The upper end of everything on the device."""
        return sum(line.high_bytes for line in self.ledger if line.device == device)

    def headroom_bytes(self, device: str) -> int:
        """What the device offers less what is used; negative if it does not fit."""
        offered = sum(budget.capacity_bytes for budget in self.budgets if budget.device == device)
        return offered - self.used_bytes(device)
