"""Which models to run on a box, best first, and why not the others."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from upright.facts.records.base import Basis, Part, Reason, Record, Upgrade, fields_added
from upright.facts.records.names import SafeName
from upright.facts.records.plan import Goal, Rate, Turn

Certainty = Literal["measured", "derived", "assumed", "not known"]
"""Of the speed: fitted on such boxes, on others, with an assumed bandwidth of system RAM, or without constants."""


class Quality(Part):
    """A published score, and what it counts for."""

    benchmark: str
    """Which benchmark."""
    score: float
    """Per cent, as published."""
    by: Literal["maker", "index"]
    """maker: the maker's own harness; index: somebody else's, one for all models."""
    date: str
    """When it was published."""
    source: str
    """The page or commit that was read."""
    counted: float
    """What it is ranked by: makers' own figures count less by the median gap."""


class PublishedRun(Part):
    """One published run on such a box."""

    id: str
    """Row of the catalogue's measurements."""
    words: str
    """Model, engine, load and speed."""
    same_model: bool
    """Whether it is of the model that is recommended."""
    source: str
    """Where it was published."""


class ModelOffer(Part):
    """One model that can be run, as it would be run."""

    model: SafeName
    """The catalogue's model."""
    source: SafeName
    """The artifact, as `upright plan` takes it."""
    quant: str
    """How its weights are stored."""
    bits: float
    """Bits of a routed weight; of any weight if there are no experts."""
    download_bytes: int
    """Size of its tensors."""
    download_basis: Basis
    """catalog if it was published, derived if it follows from the shapes."""
    quality: Quality | None
    """None where no published score was found, or the artifact has too few bits for it to hold."""
    quality_why: Reason
    """The score in words, or why there is none."""
    parameters: int
    """Weights in all."""
    active_parameters: int | None
    """Weights that a token visits."""
    certainty: Certainty
    """Of the speed."""
    artifact: SafeName
    """Name of the artifact, as its plan has it."""
    engine: SafeName
    """Which engine."""
    engine_version: SafeName | None
    """Its version, if one is installed."""
    context_tokens: int
    """Context for each user."""
    users_at_context: int
    """Users who can each fill that context at once."""
    largest_context_tokens: int
    """Longest context for one user alone."""
    decode: Rate | None
    """Tokens a second that each user sees, with its band; None if no constants are known for the like."""
    prompt: Rate | None
    """Tokens a second while a prompt is read; None where neither such prompts nor siblings tell."""
    turn: Turn | None = None
    """Seconds for a turn of one user; None where prefill is not known."""
    speed_why: Reason
    """Where the band comes from, or why there is none."""
    offloaded_layers: int
    """Layers whose experts are in system RAM; 0 if all are on the GPUs."""
    assumed: Reason | None
    """What the speed assumes of system RAM; None if nothing."""
    unrecorded: Reason | None
    """That no recorded version of the engine has the model's class; None if one has, or nobody recorded them."""


class ModelRefusal(Part):
    """A model that is not offered."""

    model: SafeName
    """The catalogue's model."""
    why: Reason
    """What stands in the way of the artifact that comes nearest."""
    planned: bool
    """Whether it was planned; otherwise a bound was enough, or better ones had filled the table."""


def _from_1(content: dict[str, Any]) -> dict[str, Any]:
    """Schema 1 did not ask which classes a version has."""
    return {**content, "offers": [{**offer, "unrecorded": None} for offer in content["offers"]]}


def _from_2(content: dict[str, Any]) -> dict[str, Any]:
    """Schema 2 named no fast and no small one."""
    return {**content, "fast": None, "small": None}


class Recommendation(Record):
    """What to run on this box."""

    kind: ClassVar[str] = "recommendation"
    schema_version: ClassVar[int] = 6
    upgrades: ClassVar[Mapping[int, Upgrade]] = {1: _from_1, 2: _from_2, **dict.fromkeys((3, 4, 5), fields_added)}

    box: SafeName
    """Which machine."""
    goal: Goal
    """What was asked."""
    offers: tuple[ModelOffer, ...]
    """Best first; empty if nothing fits."""
    fast: ModelOffer | None
    """The fastest of those that are nearly as good as the best; None where the best is, or none is known to be."""
    small: ModelOffer | None
    """The smallest of those; None where the best is."""
    refusals: tuple[ModelRefusal, ...]
    """The others, and why."""
    why: Reason
    """Why the first is the first."""
    run: PublishedRun | None
    """A published run on such a box; None if the catalogue has none."""
    makers_gap: float
    """Points by which makers' own scores are above those of one harness for all."""
    models: int
    """Models that were looked at."""
    artifacts: int
    """Artifacts of them."""
    artifacts_planned: int
    """Those that were planned in full; bounds decided the others."""
