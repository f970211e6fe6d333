"""What a machine is: processors, memory, links, disks, software, and the settings that break such boxes."""

from __future__ import annotations

from typing import ClassVar, Literal

from upright.records.base import Figure, Part, Record


class Gpu(Part):
    """One GPU as its driver reports it, with the catalogue's silicon figures beside."""

    index: int
    """The driver's index, as in CUDA_VISIBLE_DEVICES."""
    name: str
    """The device name, which tuned kernel configurations are keyed on."""
    row: str | None = None
    """The catalogue row that describes this silicon; None if there is none."""
    compute_capability: str | None = None
    """`12.0` and the like; None if unknown."""
    memory_bytes: Figure
    """Memory that the driver reports as the device's total."""
    memory_free_bytes: Figure
    """Memory not in use at the time of probing."""


class Cpu(Part):
    """The processors of the machine, taken together."""

    name: str
    """Model name as the kernel reports it."""
    sockets: int
    """Physical packages."""
    cores: int
    """Physical cores over all sockets."""
    threads: int
    """Logical processors that this process may use."""
    flags: tuple[str, ...] = ()
    """The instruction sets that matter for inference, such as avx2, avx512f, amx_tile."""


class EngineInstall(Part):
    """An engine found on the machine."""

    engine: str
    """llama.cpp, ik_llama.cpp, vllm or sglang."""
    version: str | None
    """As the engine itself prints it; None if it would not say."""
    program: str
    """The path of its executable."""


class Box(Record):
    """A machine that may serve a model."""

    kind: ClassVar[str] = "box"

    name: str
    """The host's name, or the catalogue's."""
    basis: Literal["probed", "catalog"]
    """Whether somebody looked, or the catalogue described a class of machine."""
    cpu: Cpu
    """The processors."""
    memory_bytes: Figure
    """Main memory in all."""
    memory_available_bytes: Figure
    """Main memory that a new process can have without swapping."""
    gpus: tuple[Gpu, ...] = ()
    """Empty on a machine without a GPU."""
    engines: tuple[EngineInstall, ...] = ()
    """Engines found on the machine."""
