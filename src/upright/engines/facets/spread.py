"""How an engine spreads a model over devices: ranks that divide every layer, or whole layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple


class Sharing(NamedTuple):
    """Whether ranks can share one copy of the cache (decode context parallelism)."""

    able: Callable[[str | None], bool]
    """By the version; of an unknown one as of the newest."""
    since: Callable[[], str | None]
    """The oldest version that can; None if all that are known can."""
    latent_backend: str | None = None
    """The attention backend that a shared cache of dense MLA is read with; None leaves it to the engine."""


def always() -> Sharing:
    return Sharing(lambda _: True, lambda: None)


def by_flag(engine: str, flag: str, latent_backend: str | None = None) -> Sharing:
    """Versions that take the flag."""

    def able(version: str | None) -> bool:
        from upright.facts.catalog.recorded_flags import nearest_flags

        recorded = nearest_flags(engine, version)
        return recorded is not None and flag in recorded

    def since() -> str | None:
        from upright.facts.catalog.recorded_flags import versions_taking

        return next(iter(versions_taking(engine, flag)), None)

    return Sharing(able, since, latent_backend)


NEVER = Sharing(lambda _: False, lambda: None)


class HostFormat(NamedTuple):
    """How experts are read where the CPU computes them."""

    name: str | None
    """The engine's name of the kernel; None if none reads them as they are stored."""
    cpu_flags: tuple[str, ...]
    """What the CPU must have, as Linux names it."""


class HostExperts(NamedTuple):
    """All routed experts lie in system RAM; of each layer so many on the GPUs too as there is room for."""

    format_of: Callable[[str | None], HostFormat]
    """By the artifact's quantisation."""


class Ranks(NamedTuple):
    """Every layer is divided over GPUs that work together; several boxes may hold a model together."""

    vision: Literal["divided", "replicated"]
    """What becomes of a vision tower."""
    sharing: Sharing = NEVER
    drafts: bool = True
    """Whether a draft model and pictures are settings that a plan can add."""
    replicas_in_ranks: bool | None = None
    """Whether its ranks of tensor parallelism count those of all replicas of attention; None if it has no replicas."""
    host_experts: HostExperts | None = None
    """None if every expert lies on the GPUs."""
    uneven_stages: str | None = None
    """The variable that says how many layers each pipeline stage has; None if stages are even."""


class PromptScratch(NamedTuple):
    """What an engine keeps in memory for the tokens of a prompt that it computes at once."""

    logits: bool = True
    """Logits of every one of them."""
    latent_scores: bool = False
    """Of latent attention the scores of all heads over the whole context, and its keys and values spelt out."""


class Layers(NamedTuple):
    """Whole layers on devices, experts where there is room; on one box."""

    fork_types: bool = False
    """Whether it loads the tensor types that mainline llama.cpp refuses."""
    scratch: PromptScratch = PromptScratch()


Spread = Ranks | Layers
