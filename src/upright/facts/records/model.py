"""What an artifact is made of: files, tensors by group and layer, and the architecture they form."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from upright.facts.records.base import Basis, Part, Record, Upgrade
from upright.facts.records.names import SafeName

Group = Literal[
    "embedding", "attention", "indexer", "dense_ffn", "router", "routed_experts", "shared_experts", "norm", "output",
    "tables", "vision", "draft", "other",
]  # fmt: skip
Recurrence = Literal["gdn", "kda", "mamba2", "mamba", "lightning", "conv"]


class ModelFile(Part):
    """One file of the artifact. `header_bytes + tensor_bytes + padding_bytes == size_bytes`, always."""

    name: SafeName
    """Path inside the repository or directory."""
    size_bytes: int
    """Length of the file."""
    header_bytes: int
    """Bytes before the first tensor."""
    tensor_bytes: int
    """Bytes that belong to tensors."""
    padding_bytes: int
    """Bytes between and after tensors that belong to none."""
    tensors: int
    """Tensors in this file."""


class WeightLine(Part):
    """Tensors of one group, layer and stored type, added up."""

    group: Group
    """What the tensors are for."""
    layer: int | None
    """Layer number; None for tensors outside the layers."""
    dtype: SafeName
    """The stored type, as the format names it: Q4_0, BF16, I32-packed INT4 and so on."""
    tensors: int
    """How many tensors."""
    parameters: int
    """How many weights they hold; scales and zero points count as bytes, not as parameters."""
    bytes: int
    """What they take in the file."""


class MlaAttention(Part):
    """Multi-head latent attention: one compressed vector a token and layer, shared by all heads."""

    kind: Literal["mla"] = "mla"
    """Tells the kinds of attention apart."""
    layers: int
    """How many layers are of this kind."""
    heads: int
    """Query heads."""
    kv_lora_rank: int
    """Width of the compressed KV vector."""
    rope_head_dim: int
    """Width of the rotary part kept beside it."""
    nope_head_dim: int | None = None
    """Width a head has without rotary part."""
    value_head_dim: int | None = None
    """Width of a head's value."""
    q_lora_rank: int | None = None
    """Width of the compressed query; None if queries are not compressed."""
    window_tokens: int | None = None
    """Sliding window; None means the whole context."""
    indexer_head_dim: int | None = None
    """Width of the sparse indexer's key; None if attention is dense, or as an earlier layer selected."""
    indexer_top_k: int | None = None
    """Tokens that the indexer lets through."""
    indexer_every_tokens: int = 1
    """Tokens that share one index key (pooled keys)."""

    @property
    def sparse(self) -> bool:
        """Whether an index chooses what is attended to, its own or that of a layer before."""
        return self.indexer_top_k is not None or self.indexer_head_dim is not None


class GqaAttention(Part):
    """Grouped-query attention; a window makes it sliding."""

    kind: Literal["gqa"] = "gqa"
    """Tells the kinds of attention apart."""
    layers: int
    """How many layers are of this kind."""
    heads: int
    """Query heads."""
    kv_heads: int
    """Key and value heads."""
    key_head_dim: int
    """Width of a key."""
    value_head_dim: int
    """Width of a value."""
    window_tokens: int | None = None
    """Sliding window or chunk; None means the whole context."""
    chunked: bool = False
    """True if the window is a chunk that begins anew (Llama 4), rather than sliding."""
    indexer_head_dim: int | None = None
    """Width of the index key of block-sparse attention (MiniMax M3, QSA); None if there is none."""
    indexer_top_k: int | None = None
    """Blocks or tokens that the indexer lets through."""
    indexer_every_tokens: int = 1
    """Tokens that share one index key."""


class SharedAttention(Part):
    """Layers that read the cache of a layer before them and keep none (Gemma's shared KV layers)."""

    kind: Literal["shared"] = "shared"
    """Tells the kinds of attention apart."""
    layers: int
    """How many layers are of this kind."""
    heads: int
    """Query heads."""
    head_dim: int | None = None
    """Width of a query head."""


class LinearAttention(Part):
    """A recurrent layer (Gated DeltaNet and kin): a state of fixed size a sequence, none a token."""

    kind: Literal["linear"] = "linear"
    """Tells the kinds of attention apart."""
    layers: int
    """How many layers are of this kind."""
    state_bytes: int | None = None
    """State a sequence and layer, kept in float32 as llama.cpp does; None if the header does not say."""
    state_elements: int | None = None
    """Numbers in the recurrent state of a sequence and layer."""
    conv_elements: int | None = None
    """Numbers in the convolution's state of a sequence and layer."""
    rule: Recurrence | None = None
    """Which recurrence; engines store some of them in other types."""
    state_dtype: str | None = None
    """Type of the recurrent state, where the configuration says it; None leaves it to the engine."""
    heads: int | None = None
    """Heads that tensor parallelism divides."""
    gate_bounded: bool = False
    """Whether the gate has a lower bound, which faster kernels want and pay for with one state more."""


class CompressedAttention(Part):
    """One key-value head kept whole inside a window and compressed beyond it (DeepSeek V4)."""

    kind: Literal["compressed"] = "compressed"
    """Tells the kinds of attention apart."""
    layers: int
    """How many layers are of this kind."""
    heads: int
    """Query heads."""
    head_dim: int
    """Width of the one key that is also the value."""
    rope_head_dim: int | None = None
    """Width of its rotary part."""
    window_tokens: int
    """Tokens kept uncompressed."""
    ratio: int
    """Tokens that become one compressed entry; 0 if only the window is kept here."""
    layout: Literal["v4", "v41"] = "v4"
    """How entries are packed: DeepSeek V4, or V4.1 whose layers share a few caches."""
    indexer_head_dim: int | None = None
    """Width of the sparse indexer's key; None if the layer has no indexer."""
    indexer_top_k: int | None = None
    """Compressed entries that the indexer lets through."""


Attention = Annotated[
    MlaAttention | GqaAttention | SharedAttention | LinearAttention | CompressedAttention, Field(discriminator="kind")
]


class Experts(Part):
    """The mixture: how many experts there are, and how many answer."""

    count: int
    """Routed experts a layer."""
    active: int
    """Routed experts that a token visits."""
    shared: int
    """Experts that every token visits."""
    first_moe_layer: int
    """Layers below this one are dense."""
    intermediate_size: int | None = None
    """Width inside one routed expert."""


class RopeScaling(Part):
    """How rotary positions were stretched beyond the context of pre-training."""

    kind: SafeName
    """yarn, linear, llama3, ... as the artifact names it."""
    factor: float | None = None
    """How much longer."""
    original_context_tokens: int | None = None
    """The context before stretching."""


class Table(Part):
    """A table that is looked up a few rows a token: n-gram embeddings (Engram, PLE). System RAM or NVMe can hold it."""

    name: str
    """As its makers call it."""
    rows: int
    """Entries."""
    width: int
    """Numbers in one."""
    row_bytes: int
    """What one entry takes as stored, scales included."""
    rows_per_token: int
    """Entries that a token looks up."""
    exact: bool = True
    """False if the number of rows is rounded: the configuration gives a base, the checkpoint the next primes."""


class LibraryDefault(Part):
    """A key that the configuration does not have, and what the library takes instead."""

    key: str
    """Its name."""
    value: int | float | bool | str | None
    """What is taken."""
    source: str
    """Whose default that is."""
    decides: Literal["cache", "weights"] = "cache"
    """What hangs on it."""


class Architecture(Part):
    """What the engine will build from the tensors."""

    name: SafeName
    """As the file names it: deepseek2, DeepseekV3ForCausalLM."""
    family: SafeName | None
    """The catalogue family that knows its tensor names; None if none does."""
    layers: int
    """Transformer layers of the main model."""
    hidden_size: int
    """Width of the residual stream."""
    vocabulary_size: int
    """Rows of the embedding."""
    context_limit_tokens: int | None
    """The longest context that the artifact claims; None if it does not say."""
    attention: tuple[Attention, ...]
    """Kinds of attention layers: a feed-forward block of its own is in none, a layer with two mixers in two."""
    attention_at_least: tuple[Attention, ...] | None = None
    """The least that the layers can be, if the configuration is not understood; None if it is."""
    attention_at_most: tuple[Attention, ...] | None = None
    """The most that they can be; None if it is understood, or if nothing bounds it."""
    experts: Experts | None = None
    """None for a dense model."""
    intermediate_size: int | None = None
    """Width of the dense feed-forward layers."""
    rope_scaling: RopeScaling | None = None
    """None if positions are not scaled, or the artifact does not say."""
    draft_layers: int = 0
    """Layers for multi-token prediction, stored after the main ones."""
    vision: bool = False
    """Whether the artifact brings a vision tower."""
    tables: tuple[Table, ...] = ()
    """Lookup tables that need not be in VRAM."""

    @property
    def attention_is_known(self) -> bool:
        """Whether the layers are what they are, however much else of the configuration is not understood."""
        return self.attention_at_least is not None and self.attention_at_least == self.attention_at_most


class UnknownName(Part):
    """Tensors that no pattern of the family knows; they are classed by their shape, or else in the group `other`."""

    pattern: SafeName
    """The name, with numbers written as `*`."""
    tensors: int
    """How many tensors are named so."""
    bytes: int
    """What they take."""


def _from_1(content: dict[str, Any]) -> dict[str, Any]:
    """Schema 1 took every key for understood."""
    return content


def _from_2(content: dict[str, Any]) -> dict[str, Any]:
    """Schema 2 did not look into the chat template."""
    return content


def _from_3(content: dict[str, Any]) -> dict[str, Any]:
    """Schema 3 did not look for code of the artifact's own."""
    return content


class Model(Record):
    """An artifact, known from its headers or from its configuration alone."""

    kind: ClassVar[str] = "model"
    schema_version: ClassVar[int] = 4
    upgrades: ClassVar[Mapping[int, Upgrade]] = {1: _from_1, 2: _from_2, 3: _from_3}

    name: SafeName
    """A short name for people, used as the served name."""
    source: SafeName
    """What the caller named: a path, a repository, a catalogue name."""
    revision: SafeName | None = None
    """Commit of the repository; None for local files."""
    format: Literal["gguf", "safetensors"]
    """The container format."""
    basis: Basis
    """`read` from headers, `derived` from a configuration's shapes, or `catalog`."""
    not_understood: tuple[str, ...] = ()
    """Keys of the configuration that decide memory and that no reader knows; empty if all is understood."""
    assumed: tuple[LibraryDefault, ...] = ()
    """Keys that decide memory and are absent, with the library's default for each."""
    architecture: Architecture
    """What the tensors form."""
    files: tuple[ModelFile, ...]
    """All files that hold tensors, in order."""
    weights: tuple[WeightLine, ...]
    """Every tensor, added up by group, layer and type."""
    chat_template: bool | None = None
    """Whether the artifact brings a chat template; None if not looked."""
    dialogue_marks: tuple[str, ...] | None = None
    """Marks of tool calls and thinking in its chat template and tokens, as dialects have them; None if not looked."""
    own_code: tuple[SafeName, ...] | None = None
    """What the artifact brings as Python code (`auto_map`: AutoConfig, AutoTokenizer, ...); None if not looked."""
    quantisation: SafeName | None = None
    """The method that the artifact declares: compressed-tensors, fp8, modelopt, ...; None if it declares none."""
    ik_only: bool = False
    """True if a tensor has a type that mainline llama.cpp refuses and ik_llama.cpp loads."""
    path: SafeName | None = None
    """The local file or directory that an engine would load; None if the weights are not on this machine."""
    unknown: tuple[UnknownName, ...] = ()
    """Names that no pattern knows."""

    @property
    def tensor_bytes(self) -> int:
        return sum([line.bytes for line in self.weights])  # asked hundreds of times in a plan

    @property
    def parameters(self) -> int:
        return sum(line.parameters for line in self.weights)

    @property
    def size_bytes(self) -> int:
        """What the files take on disk."""
        return sum(file.size_bytes for file in self.files)
