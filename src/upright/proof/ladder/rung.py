"""What a rung is: a name, and probes; what a probe is: one question with its price.

A probe makes one observation. Probes of one group are chosen or left out together, since they share a prefill.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from upright.facts.records.deployment import Deployment
from upright.facts.records.evidence import Observation
from upright.facts.records.recipe import Recipe
from upright.facts.records.reference import Reference
from upright.facts.records.residuals import Residuals
from upright.proof.ladder.estimating import EarlierTiming, ProbeCost, Rates
from upright.proof.ladder.prompts import PromptSet, prompt_set
from upright.serving.endpoint.client import Endpoint
from upright.serving.launch.footprint import FootprintMeter

ABLE_PARAMETERS = 7_000_000_000
"""A model of this size that is wrong about the set's questions is served wrongly (assumed)."""


@dataclass(frozen=True)
class SoakOptions:
    """What the rung `soak` is to do."""

    seconds: float = 600.0
    """How long its load lasts."""
    restart: bool = True
    """Whether a deployment of ours is restarted under it."""


@dataclass(frozen=True)
class ProofOptions:
    """How far to climb, with which questions, and at what price: made once by whoever asks, and handed on whole."""

    to: str = "smoke"
    """The last rung."""
    rungs: tuple[str, ...] | None = None
    """Rungs to climb instead of all up to `to`."""
    prompts: PromptSet | None = None
    """None for those that fit the model's size, where that is known."""
    budget_seconds: float | None = None
    samples: int = 1
    """How often questions with a structured answer are put."""
    soak: SoakOptions = SoakOptions()
    reference: Reference | None = None
    """What `equivalence` holds its continuations against."""
    context_tokens: int | None = None
    """The context to walk up to; None for the target's own."""
    tries: tuple[str, ...] = ()
    """Settings of a deployment of ours that are tried after it, each with a restart and a climb."""

    @property
    def questions(self) -> PromptSet:
        return self.prompts or prompt_set("real")


@dataclass(frozen=True)
class DeploymentControl:
    """What a rung may do with a deployment of ours besides asking it."""

    meter: Callable[[], FootprintMeter]
    """A new one for each start of the engine."""
    restart: Callable[[], None]
    """By the recipe that it runs by; returns when it has answered again. LaunchError if it does not."""


@dataclass(frozen=True)
class ProofTarget:
    """What is asked: a deployment of ours, or a server that somebody else started."""

    name: str
    reference: str
    """`recipe:sha256` or `server:sha256`."""
    context_tokens: int | None
    users: int = 1
    engine: str | None = None
    engine_version: str | None = None
    recipe: Recipe | None = None
    deployment: Deployment | None = None
    parameters: int | None = None
    """Of the model; None if they are not known."""
    bits: tuple[float, ...] = ()
    """Bits of a weight, and of a value in the KV cache; empty if they are not known."""
    residuals: Residuals | None = None
    """What the engine's memory was against its plan, where that could be read back."""
    keeper: DeploymentControl | None = None
    """None for a server that is not ours."""


@dataclass
class ProofContext:
    """Where a climb is: what rungs may look at, and what they have learned."""

    target: ProofTarget
    endpoint: Endpoint
    options: ProofOptions
    tell: Callable[[str], None] = lambda words: None
    """Hears how far a long probe has come."""
    seed: int = field(default_factory=lambda: secrets.randbelow(1 << 31))
    """What this climb's long texts are made from: new for each climb, so that no cache holds them already."""
    rates: Rates = field(default_factory=Rates)
    known: Mapping[str, EarlierTiming] = field(default_factory=dict)
    """Rungs that were climbed here before, with what they took."""
    tokens_per_sentence: float | None = None
    """Of the set's filler, as the server counts; learned at boot."""
    observations: list[Observation] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)
    """What one rung leaves for itself between its probes."""

    @property
    def prompts(self) -> PromptSet:
        return self.options.questions

    @property
    def may_be_weak(self) -> bool:
        """Whether the model's size leaves it open that it does not know a right answer."""
        small = self.target.parameters is None or self.target.parameters < ABLE_PARAMETERS
        return small and not self.prompts.taught


@dataclass(frozen=True)
class Probe:
    """One thing to find out."""

    check: str
    name: str
    """Unique within the rung and the same in every climb."""
    ask: Callable[[ProofContext], Observation]
    cost: ProbeCost = ProbeCost()  # noqa: RUF009 (frozen)
    group: str = ""
    """Probes with the same group run together; empty for one that stands alone."""


@dataclass(frozen=True)
class LadderRung:
    """One step of the ladder."""

    name: str
    about: str
    """What it looks at, in a few words."""
    probes: Callable[[ProofContext], list[Probe]]
    in_order: bool = False
    """After a group with a failure the later groups are pointless."""
    needs_recipe: bool = False
    """Skipped on a server that somebody else started."""
