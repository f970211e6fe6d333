"""What a machine is: processors, memory, links, disks, software, and the settings that break such boxes."""

from collections.abc import Sequence
from typing import ClassVar, Literal

from upright.facts.records.base import Figure, Part, Reason, Record, digest_of, unknown
from upright.facts.records.names import SafeName

NOT_PROBED = unknown("not probed")
Verdict = Literal["good", "attention", "unknown", "irrelevant"]


class PcieLink(Part):
    """A GPU's link to the machine. Idle links drop to generation 1 and come back under load; widths do not."""

    generation: Figure = NOT_PROBED
    """Generation at the time of probing."""
    generation_max: Figure = NOT_PROBED
    """The highest that GPU and slot can do together."""
    width_lanes: Figure = NOT_PROBED
    """Lanes in use."""
    width_max_lanes: Figure = NOT_PROBED
    """Lanes that GPU and slot could use together."""


class Gpu(Part):
    """One GPU as its driver reports it, with the catalogue's silicon figures beside."""

    index: int
    """The driver's index, as in CUDA_VISIBLE_DEVICES."""
    name: SafeName
    """The device name, which tuned kernel configurations are keyed on."""
    row: str | None = None
    """The catalogue row that describes this silicon; None if there is none."""
    compute_capability: str | None = None
    """`12.0` and the like; None if unknown."""
    memory_bytes: Figure
    """Memory that the driver reports as the device's total."""
    memory_free_bytes: Figure
    """Memory not in use at the time of probing."""
    memory_bandwidth_bytes_per_second: Figure = NOT_PROBED
    """Peak bandwidth of its memory, from the catalogue."""
    shared_memory_block_bytes: Figure = NOT_PROBED
    """Shared memory that one block may opt in to, from the catalogue: what SM120 kernels run out of."""
    bus_id: str | None = None
    """PCI address, as in /sys/bus/pci/devices."""
    numa_node: int | None = None
    """The NUMA node nearest to it; None if unknown."""
    pcie: PcieLink = PcieLink()
    """Its link to the machine."""
    bar1_bytes: Figure = NOT_PROBED
    """The window through which peers and the CPU see its memory; as large as the memory with resizable BAR."""
    power_limit_watts: Figure = NOT_PROBED
    """The limit that is set."""
    power_limit_max_watts: Figure = NOT_PROBED
    """The limit that could be set."""
    clock_sm_max_mhz: Figure = NOT_PROBED
    """The highest clock of its multiprocessors."""
    clock_memory_max_mhz: Figure = NOT_PROBED
    """The highest clock of its memory, as the driver reports it."""
    display: bool | None = None
    """Whether a display is driven from it (that takes memory); None if unknown."""
    mig: bool | None = None
    """Whether it is cut into instances; None if it cannot be, or if unknown."""


class Link(Part):
    """The way between two GPUs."""

    a: int
    """Index of one GPU."""
    b: int
    """Index of the other; a < b."""
    path: str
    """NV# is # NVLinks, XGMI AMD's; PIX one PCIe bridge, PXB several, PHB a host bridge, NODE one socket, SYS two."""
    peer_access: str | None = None
    """OK, or the driver's reason why not: CNS chipset, GNS GPU, TNS topology, NS not supported; None if unknown."""

    @property
    def nvlinks(self) -> int:
        return int(self.path[2:]) if self.path.startswith("NV") and self.path[2:].isdigit() else 0

    @property
    def fabric(self) -> bool:
        """Whether GPUs talk past PCIe: over NVLink, or over Infinity Fabric."""
        return self.nvlinks > 0 or self.path == "XGMI"


class Cpu(Part):
    """The processors of the machine, taken together."""

    name: SafeName
    """Model name as the kernel reports it."""
    sockets: int | None
    """Physical packages; None if unknown."""
    cores: int | None
    """Physical cores over all sockets; None if unknown."""
    threads: int | None
    """Logical processors that this process may use; None if unknown."""
    flags: tuple[str, ...] = ()
    """The instruction sets that matter for inference, such as avx2, avx512f, amx_tile."""
    hypervisor: str | None = None
    """The hypervisor above, such as KVM; None on bare metal."""


class NumaNode(Part):
    """Processors and memory that are near each other."""

    index: int
    """The kernel's number."""
    cpus: str
    """Logical processors as the kernel writes them: `0-15,32-47`."""
    memory_bytes: Figure
    """Memory of this node."""


class MemoryModules(Part):
    """The DIMMs that are plugged in."""

    kind: str | None = None
    """DDR5, DDR4, LPDDR5, ...; None if unknown."""
    count: Figure = NOT_PROBED
    """Modules plugged in."""
    channels: Figure = NOT_PROBED
    """Memory channels that have at least one module, over all sockets."""
    speed_mega_transfers_per_second: Figure = NOT_PROBED
    """The speed they run at, which may be less than what is printed on them; the slowest counts."""


class Disk(Part):
    """A mounted filesystem."""

    mount: str
    """Where it is mounted."""
    filesystem: str
    """ext4, xfs, zfs, overlay, nfs4, ..."""
    size_bytes: Figure
    """Its size."""
    free_bytes: Figure
    """What an ordinary user can still write."""


class ModelCache(Part):
    """Where Hugging Face downloads go."""

    path: str
    """The hub cache, from HF_HUB_CACHE, HF_HOME or the default."""
    mount: str | None
    """The disk that holds it."""
    free_bytes: Figure
    """Space left for downloads."""
    used_bytes: Figure
    """What the cache holds now."""


class Software(Part):
    """The ground that engines stand on."""

    system: str | None = None
    """The distribution, such as `Ubuntu 24.04.3 LTS`."""
    kernel: str | None = None
    """The kernel's release."""
    architecture: str | None = None
    """x86_64 or aarch64."""
    driver: str | None = None
    """The NVIDIA driver's version."""
    driver_open: bool | None = None
    """Whether its kernel modules are the open ones, which Blackwell needs."""
    cuda: str | None = None
    """The newest CUDA version that the driver serves."""
    cuda_toolkit: str | None = None
    """The toolkit (nvcc) on the machine; engines bring their own runtime and do not need one."""


class ContainerRuntime(Part):
    """A program that starts containers."""

    name: str
    """docker or podman."""
    version: str | None
    """Of the daemon, or of podman itself; None if it would not say."""
    usable: bool | None
    """Whether this user can start containers with it; None if unknown."""
    gpus: str | None
    """How containers get GPUs: `nvidia runtime`, `cdi`; None if they cannot."""
    problem: Reason | None = None
    """Why it is not usable."""


class EngineInstall(Part):
    """An engine found on the machine."""

    engine: SafeName
    """llama.cpp, ik_llama.cpp, vllm or sglang."""
    version: SafeName | None
    """`0.32.0`, or the build number as `b11669`; None if the engine would not say."""
    commit: SafeName | None = None
    """The commit that the build names, for engines told apart by it; None if it names none."""
    program: SafeName
    """The path of its executable."""
    module: SafeName | None = None
    """Set when the program is a Python interpreter: it is started with `-m MODULE`."""
    flags: tuple[str, ...] | None = None
    """The flags its help names; None if it was not asked, since asking vLLM or SGLang imports torch."""


class HostSetting(Part):
    """A setting of the host that is known to break or slow such boxes."""

    name: str
    """The row of the catalogue that explains it: iommu, acs, resizable_bar, ..."""
    state: str
    """What is set, in a few words."""
    verdict: Verdict
    """good, attention, unknown, or irrelevant on this machine."""
    meaning: str
    """What this state does."""
    change: str | None = None
    """How to change it; None when there is nothing to change."""
    source: str
    """Where the knowledge comes from."""


class Box(Record):
    """A machine that may serve a model."""

    kind: ClassVar[str] = "box"

    name: SafeName
    """The host's name, or the catalogue's."""
    basis: Literal["probed", "catalog"]
    """Whether somebody looked, or the catalogue described a class of machine."""
    cpu: Cpu
    """The processors."""
    memory_bytes: Figure
    """System RAM in all."""
    memory_available_bytes: Figure
    """System RAM that a new process can have without swapping."""
    memory_modules: MemoryModules = MemoryModules()
    """The DIMMs."""
    memory_bandwidth_bytes_per_second: Figure = NOT_PROBED
    """Theoretical bandwidth of system RAM: channels x transfers x 8 bytes, over all sockets."""
    memory_bandwidth_measured_bytes_per_second: Figure = NOT_PROBED
    """What a short measurement read from system RAM, all threads together."""
    numa: tuple[NumaNode, ...] = ()
    """NUMA nodes that have processors or memory."""
    gpus: tuple[Gpu, ...] = ()
    """Empty on a machine without a GPU."""
    links: tuple[Link, ...] = ()
    """Every pair of GPUs once."""
    disks: tuple[Disk, ...] = ()
    """Mounted filesystems that can hold models."""
    model_cache: ModelCache | None = None
    """The Hugging Face cache; None if unknown."""
    software: Software = Software()
    """System, kernel, driver, CUDA."""
    containers: tuple[ContainerRuntime, ...] = ()
    """Container runtimes found."""
    engines: tuple[EngineInstall, ...] = ()
    """Engines found on the machine."""
    settings: tuple[HostSetting, ...] = ()
    """Host settings that matter for serving, each with its state."""

    @property
    def mixed(self) -> bool:
        """Whether it has GPUs of several kinds."""
        return len(self.gpu_kinds) > 1

    @property
    def gpu_kinds(self) -> tuple[tuple[int, ...], ...]:
        """Numbers of the GPUs of each kind: editions of one memory and bandwidth are one."""
        kinds: dict[tuple[object, ...], list[int]] = {}
        for gpu in self.gpus:
            rate = gpu.memory_bandwidth_bytes_per_second.value or gpu.name
            memory = round((gpu.memory_bytes.value or 0) / 2**30)
            kinds.setdefault((gpu.compute_capability, memory, rate), []).append(gpu.index)
        return tuple(tuple(kind) for kind in kinds.values())

    def with_only(self, indices: Sequence[int]) -> "Box":
        """As an engine sees it that is shown these GPUs alone: they are counted from 0."""
        places = {index: place for place, index in enumerate(indices)}
        gpus = {gpu.index: gpu for gpu in self.gpus}
        links = (
            link.model_copy(update={"a": min(ends), "b": max(ends)})
            for link in self.links
            if len(ends := [places[end] for end in (link.a, link.b) if end in places]) > 1
        )
        shown = (gpus[index].model_copy(update={"index": place}) for index, place in places.items() if index in gpus)
        return self.model_copy(update={"gpus": tuple(shown), "links": tuple(links)})

    @property
    def identity(self) -> str:
        """A name for this hardware that outlives reboots and other host names: what measurements are keyed by."""
        memory = round((self.memory_bytes.value or 0) / 2**30)
        gpus = [(gpu.name, round((gpu.memory_bytes.value or 0) / 2**20)) for gpu in self.gpus]
        facts = {"cpu": self.cpu.name, "cores": self.cpu.cores, "memory_gib": memory, "gpus": gpus}
        return digest_of(facts)[:16]
