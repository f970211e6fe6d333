"""How fast an engine works on a silicon and its wires: a few constants, each of them something that hardware does."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from upright.facts.catalog.rows.base import NonEmptyText, Row, VersionRange
from upright.facts.records.base import Basis, Part

Interconnect = Literal["pcie", "nvlink", "one"]
"""How GPUs talk: over PCIe, over NVLink, or there is only one."""
Share = Annotated[float, Field(gt=0, le=1)]
Positive = Annotated[float, Field(gt=0)]


class Kernels(Part):
    """What is read in the engine's source, not fitted: how its kernels cut the work."""

    one_shot_rows: int = 0
    """Tokens of a step up to which an all-reduce is one shot over PCIe; 0 if NCCL does them all."""
    cache_splits: int | None = None
    """Pieces that the attention kernel cuts a sequence into; None if it always fills the GPU."""
    head_tile: int = 16
    """Query heads that one block of the attention kernel serves: the cache is read once for each."""
    head_tiles: dict[int, int] = Field(default_factory=dict)
    """Other tiles for some numbers of heads, where the engine has a table."""
    sparse_attention: bool = True
    """Whether it has a kernel for sparse attention here; without one a model with an indexer attends to everything."""
    verifies_together: bool = False
    """Whether the guesses of one request read a latent cache once for all, as kernels for grouped heads do."""
    separate_rows: int = 0
    """Tokens of a step up to which each reads its experts for itself, where whole layers are on devices."""
    expert_tile: int = 0
    """Rows of a tile of the kernel that multiplies prompts by experts: an expert's last one is filled up; 0 if none."""
    latent_prompts: bool = False
    """Whether prompts too are read with a latent cache as it is, not expanded: one wide head for all."""
    upload_from_rows: int | None = None
    """Rows an expert must get of a ubatch before experts offloaded to CPU are copied to the GPU to read a prompt."""
    upload_from_tokens: int | None = None
    """Or tokens of the ubatch, whatever the number of experts."""


class Constants(Part):
    """What is fitted. Every one has a unit and a plain meaning."""

    layer_us: Positive
    """Fixed time of a layer: launches, norms, router, kernels too small to fill a GPU."""
    expert_layer_us: float = 0.0
    """With whole layers on a GPU: what routed experts add: router, top-k, gather and sum are kernels of their own."""
    active_expert_us: float = 0.0
    """The same of each routed expert that answers a token: its rows are gathered, scaled and added."""
    latent_layer_us: float = 0.0
    """The same of latent attention: queries and outputs go through the compressed space in kernels of their own."""
    recurrent_layer_us: float = 0.0
    """The same of a layer with a recurrent state, whose convolution, gates, norms and update are many small kernels."""
    weight_efficiency: Share
    """Share of the memory bandwidth at which weights are read."""
    fp4_efficiency: Share = 1.0
    """The same for routed experts in NVFP4, whose grouped kernels pad each expert's few rows to a whole tile."""
    fp4_layer_us: float = 0.0
    """Fixed time that a layer of NVFP4 experts adds: activations are quantised, sorted and scaled before the kernel."""
    indexer_us: float = 0.0
    """Fixed time that a sparse-attention indexer adds to its layer: its projections, its scores and the top-k."""
    expert_skew: Annotated[float, Field(ge=0, le=3)] = 0.0
    """How unevenly a router asks its experts: the n-th favourite as often as 1 / n ** skew; 0 if all alike."""
    cache_efficiency: Share = 1.0
    """Share of the memory bandwidth at which the cache is read, once every multiprocessor is busy."""
    grouped_efficiency: Share = 0.7
    """The same for ranks whose attention has a key and a value for groups of heads: other kernels than latent ones."""
    one_shot_us: float = 0.0
    """Start of a one-shot all-reduce."""
    one_shot_gb_s: Positive = 1e9
    """Bandwidth of a one-shot all-reduce: every GPU sends to every other."""
    hop_us: float = 0.0
    """One hop of an NCCL ring; an all-reduce over n GPUs takes 2 (n - 1) of them."""
    collective_gb_s: Positive = 1e9
    """Bus bandwidth of NCCL for the messages of a decode step."""
    exchange_us: float = 0.0
    """Start of each of the three exchanges a layer of DCP 2; 3/2 - 1/n times that for n."""
    host_efficiency: Share = 1.0
    """Share of the theoretical bandwidth of system RAM's channels at which the processor can read weights."""
    host_measured_efficiency: Share = 1.0
    """The same of its measured bandwidth, where somebody measured it."""
    host_gb_s: Positive = 1e9
    """What its cores multiply a second, in bytes of weights, while GPUs do the rest: it adds to the channels' time."""
    host_alone_gb_s: Positive = 1e9
    """The same where its cores do everything: attention and small operations lie between the multiplications."""
    host_cache_gb_s: Positive = 1e9
    """What its cores attend to a second, in bytes of cache: every head multiplies them, beside the channels' time."""
    host_layer_us: float = 0.0
    """Fixed time of a layer on the processor: its threads are woken and meet, a GPU hands over and takes back."""
    ubatch_layer_us: float = 0.0
    """Fixed time of a layer for each ubatch of a prompt, with whole layers on devices; 0 for that of a decode step."""
    upload_efficiency: Share = 1.0
    """Share of the PCIe slot's bandwidth at which experts are copied to a GPU to read a prompt."""
    compute_efficiency: Share = 1.0
    """Share of the dense bf16 tensor throughput that the layers reach while a prompt is read."""
    attention_efficiency: Share = 1.0
    """The same for attention between the tokens of a prompt."""
    sparse_efficiency: Share = 1.0
    """The same for sparse attention, whose prefill works as its decode does: every token gathers its own top-k."""
    index_efficiency: Share = 1.0
    """The same for the indexer's scores, which every rank computes for all tokens before."""
    prompt_gb_s: Positive = 1e9
    """Bus bandwidth of NCCL for the long messages of a prompt."""
    prompt_socket_gb_s: Positive = 1e9
    """The same among at most four GPUs, which one socket has: nothing crosses to the other."""

    @model_validator(mode="before")
    @classmethod
    def _without_spread(cls, fields: object) -> object:
        """Rows of people that were calibrated before Zipf's law: without its exponent, as all experts alike."""
        if isinstance(fields, dict):
            return {name: figure for name, figure in fields.items() if name != "expert_spread"}
        return fields


class Errors(Part):
    """Relative errors of predictions, on rows that the fit has not seen."""

    median: float
    """Half of the rows are closer."""
    ninth: float
    """The 90th percentile."""
    low: float
    """Measured over predicted: the lower end of the band that plans show, where nine in ten further sources lie."""
    high: float
    """Measured over predicted: its upper end."""
    rows: int
    """How many rows."""
    how: NonEmptyText
    """What was left out."""


Step = Literal["model", "format", "gpu", "version", "users", "context", "architecture", "machine", "run"]
"""One way in which a plan can differ from what was measured: from what a row of constants was fitted on, or as another
run of a setting that was published differs from those."""


class FittedRange(Part):
    """What a row of constants was fitted on: there its own held-out error holds."""

    shapes: tuple[str, ...] = ()
    """Models, by architecture, layers and width: `DeepseekV3ForCausalLM 61x7168`; empty if its error is across them."""
    formats: tuple[str, ...] = ()
    """How the routed experts were stored: int4, nvfp4, fp8, mxfp4, bf16, or a type of GGUF; empty if across them."""
    gpus: tuple[str, ...] = ()
    """Rows of GPUs; empty if its error is across them."""
    versions: VersionRange = "*"
    """Versions of the engine."""
    users: int
    """Most requests of a step."""
    context_tokens: int
    """Longest context."""


class TransferRow(Row):
    """What one step away from home costs: the error of predictions across that step, measured on published rows."""

    step: Step
    """Which step."""
    of: Literal["decode", "prompt"]
    """Of decode steps, or of reading prompts."""
    speeds: tuple[str, ...]
    """Rows of speeds whose runs it was measured on."""
    errors: Errors
    """Of rows on the far side of the step, predicted by constants that were fitted on this side alone."""
    beyond: Annotated[float, Field(ge=1)]
    """What that is beyond the error at home, as the factor by which it alone would stretch a band to either side."""
    about: NonEmptyText
    """What the step is, for a person."""


class Likeness(Part):
    """What GPUs of another maker reach, where their own prompts were not published."""

    row: str
    """The row whose kernels do the same work."""
    times: Positive
    """What matrices are multiplied at, as a share of the data sheet: in times of the same share on that row's GPUs."""
    within: Annotated[float, Field(ge=1)]
    """How far off that may be, as a factor to either side: measured for several types of weights."""


class PrefillRow(Row):
    """What GPUs of a kind reach while a prompt is read, by engines of a kind: for those of which none was published."""

    engines: tuple[str, ...]
    """Whose kernels are alike."""
    capability: VersionRange
    """Compute capabilities that it holds for."""
    multiprocessor_tflops: dict[VersionRange, Positive] = Field(default_factory=dict)
    """TFLOP/s of a multiprocessor that `reached` is a share of, by compute capability; empty for dense bf16."""
    reached: Share
    """Share of that throughput: of layers and attention together."""
    attention_reached: Share = 1.0
    """What is left of it between the tokens of a prompt."""
    latent_reached: Share | None = None
    """What is left of it with latent attention (MLA); None where runs do not tell it apart."""
    fp4_reached: float | None = None
    """Times as much with NVFP4 experts, where the GPU multiplies them; None where runs do not tell them apart."""
    layer_us: float = 0.0
    """Fixed time of a layer for each piece of a prompt, which no graph covers; 0 for that of a decode step."""
    like: Likeness | None = None
    """Set where nothing was published of its own: then share and errors are another row's, and what is between them."""
    fitted_on: tuple[str, ...] = ()
    """Measurements of its kind, as ids, spans or groups."""
    errors: Errors
    """Of prompts of sources that were left out."""
    why: NonEmptyText
    """What it is made of."""


class SpeedRow(Row):
    """Constants of one engine on one kind of silicon and wires."""

    engine: str
    """vllm, sglang, llama.cpp, ik_llama.cpp."""
    versions: VersionRange = "*"
    """Versions that it holds for."""
    capability: VersionRange = "*"
    """Compute capabilities that it holds for."""
    wires: tuple[Interconnect, ...]
    """Wires that it holds for."""
    patches: tuple[str, ...] = ()
    """Only for images that carry all of these; upstream otherwise."""
    machine: str | None = None
    """Only on boxes of this kind, of which a shared bundle was admitted, and for what it measured; None for any."""
    kernels: Kernels = Field(default_factory=Kernels)
    """How the engine's kernels cut the work."""
    constants: Constants
    """What was fitted."""
    sharing_measured: bool = False
    """Whether runs with a shared cache were among those that were fitted: only then is it shared for speed."""
    drafts_measured: bool = False
    """Whether runs with a draft were published of it: only then is a band printed for an acceptance nobody knows."""
    fitted_on: tuple[str, ...] = ()
    """Measurements that it was fitted on, as ids or spans of ids: a test fits it again."""
    answer_tokens: int | None = None
    """Tokens of an answer, in whose time every other user's prompt is read once; None if steps alone are predicted."""
    most_users: int | None = None
    """Runs with more users were left out of the fit, and their error is that of the step; None if none were."""
    unseen: tuple[str, ...] = ()
    """Measurements that it was not fitted on and is held against, as groups."""
    fits: tuple[str, ...] = ()
    """The constants that were fitted on decode; the others are assumed, or another row's."""
    prompt_fits: tuple[str, ...] = ()
    """The constants that were then fitted on prompts."""
    home: FittedRange | None = None
    """What it was fitted on; None for a row that was taken over whole."""
    errors: Errors | None = None
    """How far decode is off at home, on rows that the fit has not seen."""
    prompt_errors: Errors | None = None
    """The same for reading prompts; None if no prompt of such a run was published."""
    gpu_runs: tuple[str, ...] = ()
    """Measurements with whole layers on GPUs and nothing in system RAM, as groups: what `gpu_errors` is measured on."""
    gpu_errors: Errors | None = None
    """How far decode is off where the processor has no part; None if that is not told apart."""
    basis: Basis
    """measured if it was fitted on runs, derived if taken over from another row."""
    why: NonEmptyText
    """What it is made of."""
