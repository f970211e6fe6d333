"""Silicon, boxes and the links between them."""

from typing import Annotated, Literal

from pydantic import Field

from upright.base.units import GB, GIB, KIB, MIB
from upright.facts.catalog.rows.base import Fact, Row
from upright.facts.records.base import Part


class PowerPoint(Part):
    """What a card still does at a power limit."""

    watts: int
    """The limit."""
    tflops: float
    """Tensor-core throughput measured there."""


class GpuRow(Row):
    """One kind of GPU. Tensor figures are dense, without sparsity."""

    name: str
    """Marketing name."""
    device_names: Annotated[tuple[str, ...], Field(min_length=1)]
    """Names that the driver reports; tuned kernel configurations are keyed on them."""
    aliases: tuple[str, ...] = ()
    """Other names that people type."""
    vendor: Literal["nvidia", "amd", "apple", "intel"] = "nvidia"
    """Whose it is: no engine has kernels for all of them."""
    compute_capability: str
    """`12.0` and the like: a number with consequences. Of AMD the compiler's target, of Apple and Intel a family."""
    memory_kind: str
    """GDDR7, HBM3e, unified LPDDR5X and so on."""
    unified_memory: bool = False
    """Whether the GPU shares the host's memory."""
    sm_count: Fact
    """Streaming multiprocessors; of AMD compute units, of Apple GPU cores, of Intel Xe cores."""
    memory_gb: Fact
    """Memory as sold, in decimal GB as the vendor counts."""
    memory_reported_mib: Fact
    """Memory that the driver reports as the device's total; of unified memory what the GPU may have of it."""
    memory_bandwidth_gb_s: Fact
    """Peak memory bandwidth."""
    memory_bandwidth_loaded_gb_s: Fact | None = None
    """Memory bandwidth at the clock that holds while CUDA runs, where that differs."""
    shared_memory_sm_kib: Fact
    """Shared memory of one multiprocessor."""
    shared_memory_block_kib: Fact
    """Shared memory that one thread block may have: kernels that ask for more do not start."""
    fp4_tflops: Fact
    """Dense FP4 tensor throughput."""
    fp8_tflops: Fact
    """Dense FP8 tensor throughput."""
    bf16_tflops: Fact
    """Dense BF16 tensor throughput."""
    power_w: Fact
    """Board power as sold."""
    power_range_w: tuple[int, int] | None = None
    """Limits that the driver accepts."""
    power_sweep: tuple[PowerPoint, ...] = ()
    """Measured throughput by power limit."""
    power_sweep_source: str | None = None
    """Where the sweep was published."""
    pcie_generation: int | None
    """None if the GPU is not on PCIe."""
    pcie_lanes: int | None
    """None if the GPU is not on PCIe."""
    nvlink_gb_s: Fact
    """NVLink bandwidth in both directions together; 0 if it has none."""
    board_nvlinks: Fact | None = None
    """NVLinks, or links of Infinity Fabric, to any other GPU of its board; None if it comes on no board."""
    notes: tuple[str, ...] = ()
    """What surprises people."""

    @property
    def memory_bytes(self) -> int:
        """The driver's total, or the size as sold when no report is known."""
        if self.memory_reported_mib.value is not None:
            return int(self.memory_reported_mib.value * MIB)
        return int((self.memory_gb.value or 0) * GB)

    @property
    def shared_memory_block_bytes(self) -> int:
        return int((self.shared_memory_block_kib.value or 0) * KIB)


class GpuGroup(Part):
    """GPUs of one kind in a box that has several."""

    gpu: str
    """The GPU row."""
    count: int
    """How many of them."""


class BoxRow(Row):
    """A class of machine, or one machine that somebody described in public. What is not known is left out."""

    name: str
    """A line for people."""
    aliases: tuple[str, ...] = ()
    """Other names that people type."""
    gpu: str | None
    """The GPU row; None for a machine without one."""
    gpu_count: int
    """How many of them."""
    more_gpus: tuple[GpuGroup, ...] = ()
    """GPUs of other kinds beside them, in the order of their numbers."""
    cpu: str | None = None
    """Processor name."""
    cpu_sockets: int | None = None
    """Physical packages."""
    cpu_cores: int | None = None
    """Physical cores over all sockets."""
    cpu_threads: int | None = None
    """Logical processors."""
    cpu_flags: tuple[str, ...] = ()
    """Instruction sets that matter for inference."""
    memory_gib: Fact | None = None
    """System RAM."""
    memory_kind: str | None = None
    """DDR5, LPDDR5X and so on."""
    memory_channels: int | None = None
    """Populated memory channels over all sockets."""
    memory_mt_s: int | None = None
    """Data rate of the memory modules."""
    memory_bandwidth_gb_s: Fact | None = None
    """Theoretical bandwidth of system RAM: channels x 8 bytes x data rate."""
    numa_nodes: int | None = None
    """Memory nodes of the host."""
    gpu_numa: tuple[int, ...] = ()
    """The node that each GPU hangs on; empty if not known."""
    switch_pairs: tuple[tuple[int, int], ...] = ()
    """Pairs of GPUs behind one PCIe switch (PIX in the topology matrix)."""
    nvlinks: int
    """NVLinks between any two GPUs, as in the NV# of the topology matrix; 0 if there are none."""
    notes: tuple[str, ...] = ()
    """What surprises people."""

    @property
    def gpu_groups(self) -> tuple[GpuGroup, ...]:
        """Every kind of GPU; nothing on a machine without one."""
        return (GpuGroup(gpu=self.gpu, count=self.gpu_count), *self.more_gpus) if self.gpu else ()

    @property
    def memory_bytes(self) -> int | None:
        if self.memory_gib is None or self.memory_gib.value is None:
            return None
        return int(self.memory_gib.value * GIB)


class LinkRow(Row):
    """What a path between GPUs was measured to do."""

    name: str
    """A line for people."""
    path: str
    """pcie, nvlink, collective."""
    gpus: int
    """How many GPUs took part."""
    message_bytes: int | None = None
    """Size of the message; None for bandwidth over large ones."""
    bandwidth_gb_s: Fact | None = None
    """Measured bandwidth."""
    latency_us: Fact | None = None
    """Measured time of one operation."""
    settings: str | None = None
    """What was set while measuring."""
