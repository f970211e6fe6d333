"""Terms, GGUF tensor types, tensor-name families and published measurements."""

from typing import Any, Literal

from upright.facts.catalog.rows.base import Grade, NonEmptyText, Row

Sort = Literal[
    "plan term", "basis", "grade", "state", "verdict", "rung", "objection", "tensor group", "use", "severity",
    "status", "word",
]  # fmt: skip


class TermRow(Row):
    """A word that records and pages use."""

    word: NonEmptyText
    """As it is written in records and on pages; two rows may share one."""
    aliases: tuple[str, ...] = ()
    """Other ways in which people write it."""
    of: Sort
    """What kind of word it is."""
    about: NonEmptyText
    """What it is."""
    matters: NonEmptyText
    """Why it matters."""
    do: str | None = None
    """What to do about it."""


class GgmlTypeRow(Row):
    """How a GGUF file stores weights."""

    name: NonEmptyText
    """As llama.cpp writes it."""
    number: int
    """The type's number in the file."""
    block_elements: int
    """Weights a block."""
    block_bytes: int
    """Bytes a block."""
    row_bytes: int
    """Bytes a row beyond its blocks."""
    ik_only: bool
    """Whether only ik_llama.cpp loads it."""
    gpu_kernels: bool = True
    """Whether a GPU multiplies by it; else the processor does, whatever the batch."""
    instead: str | None = None
    """What is stored where a row is not a whole number of its blocks."""

    @property
    def bits_per_weight(self) -> float:
        """Without the bytes a row."""
        return self.block_bytes * 8 / self.block_elements


class FamilyRow(Row):
    """How the tensors of one family of models are named."""

    grade: Grade = "A"
    """Names are read in the code that loads them."""
    title: NonEmptyText
    """Models that belong to it."""
    hf_architectures: tuple[str, ...] = ()
    """Classes in `config.json` that belong to it."""
    gguf_architectures: tuple[str, ...] = ()
    """Architectures in GGUF headers that belong to it."""
    sliding_window_period: int | None = None
    """Every so many layers one looks at the whole context; None if the configuration says it layer by layer."""
    names: tuple[dict[str, Any], ...] = ()
    """Patterns of tensor names, and the group each belongs to."""
    seen: tuple[dict[str, Any], ...] = ()
    """Real names, which the reader's tests hold the patterns against."""


class MeasurementRow(Row):
    """One published result, as its author states it."""

    date: str
    """When it was measured or published."""
    model: str
    """As the author names it."""
    artifact: str | None = None
    """Repository or file, as the author names it."""
    quant: str | None = None
    """How the weights were stored."""
    engine: str
    """Which engine, or fork of one."""
    engine_version: str | None = None
    """Version or image."""
    gpu: str
    """Which GPU; none for a run on processors."""
    gpu_count: int | None = None
    """How many."""
    cpu: str | None = None
    """Processor and memory."""
    host_bandwidth: str | None = None
    """Bandwidth of system RAM in GB/s, in the author's words."""
    gpu_expert_layers: int | None = None
    """Layers whose routed experts were on GPUs; None if all were, or if the author does not say."""
    interconnect: str | None = None
    """How the GPUs talked."""
    parallelism: str | None = None
    """Tensor, context and expert parallelism."""
    speculation: str | None = None
    """Speculative decoding, if any."""
    acceptance: float | None = None
    """Share of the drafted tokens that were accepted, where the author gives it for this very run."""
    accepted_length: float | None = None
    """Or the mean number of tokens that one step made."""
    kv_dtype: str | None = None
    """Type of the cache."""
    flags: str | None = None
    """Further settings."""
    context_tokens: int | None = None
    """Context in the prompt."""
    concurrency: int | None = None
    """Requests at once; None with a note when the author only says saturated."""
    kind: Literal["decode", "prefill", "aggregate"] | None = None
    """decode: steady generation; aggregate: output rate of a whole benchmark, with prefill, ramp and tail in it."""
    decode_tokens_per_second: float | None = None
    """Tokens generated a second by all requests together."""
    prefill_tokens_per_second: float | None = None
    """Tokens read a second."""
    kv_tokens: int | None = None
    """Tokens that the cache held."""
    ttft_seconds: float | None = None
    """Time to the first token."""
    tpot_ms: float | None = None
    """Mean time per output token of one request."""
    group: str | None = None
    """One configuration of one source: rows of a group share everything but the load."""
    notes: str | None = None
    """How it was measured, in short."""


def unfold_ggml_types(content: dict[str, Any]) -> list[dict[str, Any]]:
    """One file holds all types and names its sources once; there a type's `id` is its number."""
    shared = {"sources": content["sources"], "grade": "A"}
    return [{**shared, **row, "id": row["name"], "number": row["id"]} for row in content["types"]]
