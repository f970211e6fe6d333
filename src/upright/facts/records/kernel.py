"""Whether an engine's kernels fit a silicon: three verdicts, and never a guess."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from upright.facts.records.base import Part, Reason, Record, Upgrade
from upright.facts.records.plan import Objection

KernelAnswer = Literal["fits", "does-not-fit", "could-not-determine"]


class KernelVerdict(Part):
    """One kernel launch, compiled for one target."""

    path: str
    """Which way through the engine asks for it: mla-decode, extend, fused-moe, ..."""
    kernel: str
    """The Triton function's name; the launcher's if it never came to a launch."""
    engine: str
    """vllm or sglang."""
    engine_version: str | None
    """The engine's version; None if its source does not say."""
    target: str
    """`sm_120` and the like."""
    verdict: KernelAnswer
    """fits, does-not-fit or could-not-determine."""
    kv_dtype: str | None = None
    """Stored type of the cache that was asked for, as torch names it; None if the kernel sees no cache."""
    launch: str
    """Shapes, tile, warps and stages as this engine chooses them for this target."""
    needed_bytes: int | None = None
    """Shared memory that a block needs, from Triton's own allocation; None if unknown."""
    limit_bytes: int | None = None
    """Shared memory that a block can have on the target; None if unknown."""
    short_bytes: int | None = None
    """By how much it does not fit; None if it fits or is unknown."""
    registers: int | None = None
    """Registers a thread, if it was compiled to the binary."""
    spill_bytes: int | None = None
    """Spill stores and loads of a thread, if it was compiled to the binary."""
    why: str
    """The comparison in words, or the cause why there is none."""
    remedy: Reason | None = None
    """What would help, as a command or a setting; None if nothing is needed or known."""

    def concerns(self, engine: str, version: str | None, kv_dtype: str) -> bool:
        """Whether a plan for this engine, version and cache type (as the engine spells it) would launch it."""
        same = self.engine == engine and (version is None or self.engine_version in (None, version))
        return same and (self.kv_dtype is None or _is_fp8(self.kv_dtype) == _is_fp8(kv_dtype))

    def objection(self) -> Objection | None:
        """What a plan says about it; None if it fits or nobody knows."""
        if self.verdict != "does-not-fit":
            return None
        message = f"{self.engine}'s kernel {self.kernel} ({self.path}) {self.why}"
        return Objection(code="kernel-too-large", message=message, short_bytes=self.short_bytes, remedy=self.remedy)


def _is_fp8(name: str) -> bool:
    return name.startswith(("fp8", "float8"))


class KernelCheck(Record):
    """All kernels of one engine that a model would use on a target."""

    kind: ClassVar[str] = "kernel-check"

    model: str | None
    """Whose shapes; None if they were given by hand."""
    box: str | None
    """Which box; None if only a target was given."""
    engine: str
    """vllm or sglang."""
    engine_version: str | None
    """The engine's version."""
    engine_source: str
    """Where its files were read: an environment, an image, a wheel, a directory."""
    triton: str
    """The Triton that compiled, and whose it is."""
    target: str
    """`sm_120` and the like."""
    limit_bytes: int | None
    """Shared memory that a block can have there; None if no row knows the target."""
    verdicts: tuple[KernelVerdict, ...]
    """One a launch."""
    not_judged: tuple[str, ...] = ()
    """Kernels on this model's way which are not Triton's, so that nothing is said about them."""

    @property
    def answer(self) -> KernelAnswer:
        """The worst verdict: one kernel that does not fit is enough, and unknown is never `fits`."""
        answers = {verdict.verdict for verdict in self.verdicts}
        if "does-not-fit" in answers:
            return "does-not-fit"
        return "fits" if answers == {"fits"} else "could-not-determine"


class MoeDevice(Part):
    """The tuned files of one device and weight type, held against a target."""

    device: str
    """The card they were tuned on, as the files' names spell it."""
    dtype: str
    """Weight type."""
    files: int
    """How many files."""
    files_over: int
    """Files with an entry that does not fit."""
    entries: int
    """Batch sizes in all files together."""
    entries_over: int
    """Entries that do not fit."""
    entries_unknown: int
    """Entries that could not be determined."""
    most_bytes: int | None
    """The hungriest entry; None if none is known."""
    why: str | None = None
    """The commonest cause among the unknown ones."""


class MoeCandidate(Part):
    """A tile that runs on the target and was tuned by somebody somewhere."""

    tile: dict[str, int]
    """BLOCK_SIZE_M, N, K, num_warps, num_stages."""
    used: int
    """Entries of shipped files that use it."""
    batch_from: int
    """Smallest batch that a file uses it for."""
    batch_to: int
    """Largest batch that a file uses it for."""
    needed_bytes: int
    """Shared memory of a block."""


class MoeModel(Part):
    """The tuned file that an engine looks for when it serves a model on a GPU."""

    model: str
    """Which model."""
    experts: str
    """Its routed experts on one device, or why no tuned file is looked for."""
    file_name: str | None = None
    """What the engine looks for there; None if its experts do not run in Triton or no GPU is known by name."""
    ships: bool = False
    """Whether this release has that file."""
    verdicts: tuple[KernelVerdict, ...] = ()
    """The tiles that run: the file's, or the engine's defaults where there is none."""
    tuner: str | None = None
    """The engine's own command that makes the file, on the GPU itself."""
    place: str | None = None
    """Where the engine finds a file of one's own."""


def _moe_check_from_1(content: dict[str, Any]) -> dict[str, Any]:
    """Schema 1 knew no model."""
    return content


class MoeCheck(Record):
    """Which tuned MoE configurations of an engine can run on a target."""

    kind: ClassVar[str] = "moe-check"
    schema_version: ClassVar[int] = 2
    upgrades: ClassVar[Mapping[int, Upgrade]] = {1: _moe_check_from_1}

    engine: str
    """vllm or sglang."""
    engine_version: str | None
    """The engine's version."""
    engine_source: str
    """Where its files were read."""
    triton: str
    """The Triton that compiled, and whose it is."""
    target: str
    """`sm_120` and the like."""
    limit_bytes: int | None
    """Shared memory that a block can have there."""
    tiles: int
    """Distinct tiles that were compiled."""
    devices: tuple[MoeDevice, ...]
    """One a device and weight type."""
    candidates: tuple[MoeCandidate, ...] = ()
    """Tiles worth tuning here, if a weight type was asked for."""
    model: MoeModel | None = None
    """What a model would load, if one was named."""


class TileFit(Part):
    """One tile of a search."""

    tile: dict[str, int]
    """Rows, columns and stages as the kernel names them."""
    verdict: KernelAnswer
    """fits, does-not-fit or could-not-determine."""
    needed_bytes: int | None = None
    """Shared memory of a block; None if it was not compiled or is unknown."""
    registers: int | None = None
    """Registers a thread; finalists only."""
    spill_bytes: int | None = None
    """Spill stores and loads of a thread; finalists only."""
    inferred: bool = False
    """True if a smaller tile already does not fit, so that this one was not compiled."""
    chosen: bool = False
    """True if it is what the engine chooses by itself."""
    why: str | None = None
    """The cause, if it could not be determined."""


class TileSearch(Record):
    """Tiles of one kernel on one target, the best first."""

    kind: ClassVar[str] = "tile-search"

    path: str
    """Which way through the engine."""
    kernel: str
    """The Triton function."""
    engine: str
    """vllm or sglang."""
    engine_version: str | None
    """The engine's version."""
    triton: str
    """The Triton that compiled, and whose it is."""
    target: str
    """`sm_120` and the like."""
    limit_bytes: int | None
    """Shared memory that a block can have there."""
    launch: str
    """The shapes."""
    compiled: int
    """How many tiles were compiled."""
    seconds: float
    """How long it took, by the clock."""
    tiles: tuple[TileFit, ...]
    """Finalists first, then what fits, then what does not."""
