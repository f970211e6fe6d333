"""Whether an engine's kernels fit a silicon: three verdicts, and never a guess."""

from __future__ import annotations

from typing import ClassVar, Literal

from upright.records.base import Part, Record

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
    remedy: str | None = None
    """What would help, as a command or a setting; None if nothing is needed or known."""


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
