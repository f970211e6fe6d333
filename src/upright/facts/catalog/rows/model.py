"""Models: shapes, artifacts, parsers, sampling, and the licence terms that bite."""

from typing import Annotated, Any, Literal

from pydantic import Field

from upright.facts.catalog.rows.base import Fact, Grade, NonEmptyText, Row, VersionRange
from upright.facts.records.base import Part
from upright.facts.records.model import Attention, Experts


class ModelShape(Part):
    """What the tensors form, as the configuration says."""

    architecture: str
    """The class that the engine builds."""
    layers: int
    """Transformer layers."""
    hidden_size: int
    """Width of the residual stream."""
    vocabulary_size: int
    """Rows of the embedding."""
    context_limit_tokens: int
    """The longest context that the model claims."""
    attention: tuple[Attention, ...]
    """Kinds of attention layers."""
    experts: Experts | None
    """The mixture; None for a dense model."""
    dense_ffn_size: int | None = None
    """Width of a dense layer's feed-forward part."""
    expert_ffn_size: int | None = None
    """Width of one routed expert."""
    mtp_layers: int = 0
    """Layers for multi-token prediction that ship inside the checkpoint."""
    rope: dict[str, float | int | str] = Field(default_factory=dict)
    """Rotary settings that the configuration carries."""
    grade: Grade
    """How well the shape is known."""
    source: NonEmptyText
    """Where it was read."""


class Parsers(Part):
    """What an engine must be told to understand the model's tool calls and thinking."""

    tool: str | None = None
    """Name of the tool-call parser; None if the engine finds it in the template."""
    reasoning: str | None = None
    """Name of the reasoning parser; None if there is none."""
    flags: tuple[str, ...] = ()
    """Further flags that belong to it."""
    note: str | None = None
    """What to know."""


class Thinking(Part):
    """How thinking is switched."""

    default: Literal["on", "off", "always", "never"]
    """What the model does when nobody asks."""
    switch_off: dict[str, Any] | None = None
    """Fields of the request that switch it off."""
    switch_on: dict[str, Any] | None = None
    """Fields of the request that switch it on."""
    note: str | None = None
    """What to know."""


class Licence(Part):
    """The terms, and the ones that bite."""

    name: str
    """As its maker calls it."""
    bites: tuple[str, ...] = ()
    """Terms beyond the usual that a user can run into."""
    source: NonEmptyText
    """Where it was read."""


Level = Literal["native", "equal", "near", "lossy"]
"""native: as its maker trained or published it; equal: nothing was measured to be lost; near: a little; lossy: more."""


class Fidelity(Part):
    """How near a build's weights are to the native ones."""

    level: Level
    """The class."""
    source: NonEmptyText
    """What was published of it, and where."""


class Artifact(Part):
    """One set of files of the model."""

    repository: str
    """Hugging Face repository."""
    quant: str | None = None
    """The part after the colon for GGUF repositories: UD-Q2_K_XL, IQ3_K."""
    format: Literal["safetensors", "gguf"]
    """Container format."""
    scheme: str
    """How the weights are stored."""
    size_bytes: Fact
    """Size of the weight files; value None when nobody published it."""
    engines: tuple[str, ...]
    """Engines that load it."""
    configuration: str | None = None
    """Name of its own recorded config.json, where it differs from the model's; its sizes follow from that."""
    fidelity: Fidelity | None = None
    """What was published of this build; None: what is known of its scheme holds."""
    expert_bits: Fact | None = None
    """Bits a weight of the routed experts, scales included."""
    other_bits: Fact | None = None
    """Bits a weight of everything else."""
    note: str | None = None
    """What to know before downloading it."""
    parsers: dict[str, Parsers] | None = None
    """By engine, where they are not the row's: a release that thinks beside one that does not."""
    sampling: dict[str, dict[str, float]] | None = None
    """Recommended settings by mode, where they are not the row's."""
    thinking: Thinking | None = None
    """How thinking is switched, where it is not the row's."""
    context_limit_tokens: int | None = None
    """The longest context that it claims, where it is not the row's."""
    chat_template: str | None = None
    """A template that it needs and does not bring; None if its own is right."""
    licence: Licence | None = None
    """Its terms, where they are not the row's."""


class Draft(Part):
    """A draft model for this one."""

    repository: str
    """Hugging Face repository; for multi-token prediction the model's own."""
    method: Literal["eagle3", "mtp", "dflash"]
    """Speculation method."""
    attention: Literal["mla", "mha"] | None = None
    """The draft's own attention, which decides the backend that it needs."""
    note: str | None = None
    """What to know."""


class Vision(Part):
    """Whether the model sees, and through which engines."""

    tower: str | None = None
    """Name and size of the vision tower."""
    engines: tuple[str, ...] = ()
    """Engines that take images with this model."""
    engines_without: tuple[str, ...] = ()
    """Engines that load the model but not its tower."""
    source: NonEmptyText
    """Where it was read."""


class ModelRow(Row):
    """One model. Every artifact of it shares the shape."""

    name: str
    """As its maker writes it."""
    repository: str
    """The maker's repository."""
    aliases: tuple[str, ...] = ()
    """Other names that people type; other repositories with the same shape."""
    maker: str
    """Who made it."""
    released: str
    """Date, month or year."""
    about: str
    """One or two sentences."""
    parameters: Fact
    """Weights in all."""
    active_parameters: Fact
    """Weights that a token visits."""
    shape: ModelShape | None = None
    """None when only the headline figures are known, or a configuration tells more."""
    configuration: str | None = None
    """Name of the recorded config.json: shapes, cache and derived sizes follow from it."""
    context_limit_tokens: int | None = None
    """The longest context that the model claims, where the recorded configuration is a sister's."""
    artifacts: Annotated[tuple[Artifact, ...], Field(min_length=1)]
    """Sets of files, the native one first."""
    parsers: dict[str, Parsers] = Field(default_factory=dict)
    """By engine; an artifact may have its own."""
    sampling: dict[str, dict[str, float]] = Field(default_factory=dict)
    """Recommended settings by mode: thinking, instant, default."""
    thinking: Thinking | None = None
    """None if the model does not think aloud."""
    licence: Licence
    """Its terms."""
    vision: Vision | None = None
    """None if the model does not see."""
    drafts: tuple[Draft, ...] = ()
    """Models that guess ahead for it, the best known first."""
    engines: dict[str, VersionRange] = Field(default_factory=dict)
    """Versions that run it, by engine."""
    own_code: NonEmptyText | None = None
    """Code of its repository that no engine loads it without, and who reads it; None if engines bring all they need."""
    kv_note: str | None = None
    """What the cache formula does not say."""
    notes: tuple[str, ...] = ()
    """What surprises people."""

    def of(self, repository: str) -> "ModelRow":
        """The row as it is for one artifact: what belongs to a release is not a family's."""
        name = repository.partition(":")[0].lower()
        known = (artifact for artifact in self.artifacts if name in _names(artifact.repository))
        artifact = next(known, None)
        own = {field: getattr(artifact, field) for field in OWN if artifact and getattr(artifact, field) is not None}
        return self.model_copy(update=own) if own else self


OWN = ("parsers", "sampling", "thinking", "licence")
"""What an artifact may say for itself, by the names of the row's fields."""


def _names(repository: str) -> set[str]:
    """With and without its owner; and the release that an FP8 build was made of, which behaves alike."""
    whole = repository.lower()
    names = {whole, whole.removesuffix("-fp8")}
    return names | {name.rpartition("/")[2] for name in names}


class SchemeRow(Row):
    """What the name of a build says of its storage, where its own configuration is not recorded."""

    about: NonEmptyText
    """What is stored how."""
    fidelity: Fidelity | None = None
    """What was measured of such builds; None if nothing was published."""
    declared: dict[str, Any] | None = None
    """A quantization_config that says so; empty for none."""
    expert_bits: float | None = None
    """GGUF: bits of a routed expert's weight."""
    other_bits: float | None = None
    """GGUF: bits of any other matrix's weight."""
    fork_only: bool = False
    """GGUF: whether mainline llama.cpp refuses such tensors."""
    dense_bits: float | None = None
    """GGUF: the same of a model without experts, where its builder mixes otherwise there."""
