"""Writes the synthetic recordings beside this file: `PYTHONPATH=src python tests/recordings/boxes/synthesise.py`.

They stand for boxes that people described in public and that nobody recorded for us. GPUs, their number, topology,
processor and memory are theirs; the rest (addresses, driver, kernel, clocks, settings) is invented in the tools' real
output formats. A recording that a user sends replaces the synthetic one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from upright.base.host import Result
from upright.base.host.recorded import write_recording
from upright.planning.probing.engines import engine_questions
from upright.planning.probing.nvidia import FIELDS
from upright.planning.probing.probe_rounds import FIRST_ROUND

HERE = Path(__file__).parent
ZEN5 = "fma f16c avx2 avx512f avx512dq avx512bw avx512vl avx512cd avx512_bf16 avx512_vnni avx_vnni avx512_vp2intersect"
EMERALD = "fma f16c avx2 avx512f avx512dq avx512bw avx512vl avx512cd avx512_bf16 avx512_vnni amx_bf16 amx_tile amx_int8"
UNITS = {"memory": "MiB", "power": "W", "clocks": "MHz"}


@dataclass
class Box:
    name: str
    note: str
    cpu: str
    vendor: str
    flags: str
    sockets: int
    cores: int
    memory_gib: int
    dimms: list[tuple[str, str]]
    dimm_gib: int
    speed_mts: int
    gpu: str
    capability: str
    gpu_mib: int
    watts: tuple[str, str]
    clocks_mhz: tuple[int, int]
    buses: list[str]
    nodes: list[int]
    paths: list[list[str]]
    driver: str
    cuda: str
    bar1_mib: int
    peers: str = "OK"
    nics: int = 0
    addressing: str = "None"
    persistence: str = "Enabled"
    fabric: dict[str, str] = field(default_factory=dict)
    extra: dict[str, Result] = field(default_factory=dict)
    second_round: list[tuple[tuple[str, ...], Result]] = field(default_factory=list)


def ok(text: str) -> Result:
    return Result(0, text if text.endswith("\n") or not text else text + "\n", "")


def missing(program: str) -> Result:
    return Result(127, "", f"[Errno 2] No such file or directory: '{program}'")


def no_file(path: str) -> Result:
    return Result(1, "", f"cat: {path}: No such file or directory\n")


def cpulist(box: Box, node: int) -> str:
    """Cores of the node first, their siblings after all cores."""
    each, total = box.cores // box.sockets, box.cores
    nodes = max(box.nodes) + 1
    width = total // nodes if nodes > box.sockets else each
    first = node * width
    return f"{first}-{first + width - 1},{total + first}-{total + first + width - 1}"


def lscpu(box: Box) -> str:
    def row(name: str, data: object, *children: dict[str, object]) -> dict[str, object]:
        return {"field": f"{name}:", "data": str(data), **({"children": list(children)} if children else {})}

    nodes = range(max(box.nodes) + 1)
    details = [
        row("CPU family", 26 if "AMD" in box.vendor else 6),
        row("Thread(s) per core", 2),
        row("Core(s) per socket", box.cores // box.sockets),
        row("Socket(s)", box.sockets),
        row("Flags", f"fpu vme de pse tsc msr {box.flags} sha_ni"),
    ]
    numa = [row(f"NUMA node{node} CPU(s)", cpulist(box, node)) for node in nodes]
    content = [
        row("Architecture", "x86_64", row("CPU op-mode(s)", "32-bit, 64-bit"), row("Byte Order", "Little Endian")),
        row("CPU(s)", box.cores * 2, row("On-line CPU(s) list", f"0-{box.cores * 2 - 1}")),
        row("Vendor ID", box.vendor, row("Model name", box.cpu, *details)),
        row("NUMA", "", row("NUMA node(s)", len(nodes)), *numa),
    ]
    return json.dumps({"lscpu": content}, indent=3)


def dmidecode(box: Box) -> str:
    head = "# dmidecode 3.5\nGetting SMBIOS data from sysfs.\nSMBIOS 3.7.0 present.\n"
    maximum = "Handle 0x0022, DMI type 16, 23 bytes\nPhysical Memory Array\n\tLocation: System Board Or Motherboard\n"
    maximum += f"\tUse: System Memory\n\tError Correction Type: Multi-bit ECC\n\tNumber Of Devices: {len(box.dimms)}\n"
    module = (
        "Handle 0x{handle:04X}, DMI type 17, 92 bytes\nMemory Device\n\tArray Handle: 0x0022\n"
        "\tError Information Handle: 0x0029\n\tTotal Width: 80 bits\n\tData Width: 64 bits\n\tSize: {gib} GB\n"
        "\tForm Factor: DIMM\n\tSet: None\n\tLocator: {locator}\n\tBank Locator: {bank}\n\tType: DDR5\n"
        "\tType Detail: Synchronous Registered (Buffered)\n\tSpeed: {speed} MT/s\n\tManufacturer: Unknown\n"
        "\tSerial Number: Not Specified\n\tAsset Tag: Not Specified\n\tPart Number: Not Specified\n\tRank: 2\n"
        "\tConfigured Memory Speed: {speed} MT/s\n\tConfigured Voltage: 1.1 V\n\tMemory Technology: DRAM\n"
    )
    modules = [
        module.format(handle=0x30 + n, gib=box.dimm_gib, locator=locator, bank=bank, speed=box.speed_mts)
        for n, (bank, locator) in enumerate(box.dimms)
    ]
    return "\n".join([head, maximum, *modules])


def query(box: Box) -> str:
    header = [f"{name} [{UNITS[name.split('.')[0]]}]" if name.split(".")[0] in UNITS else name for name in FIELDS]
    rows = [header]
    for index, bus in enumerate(box.buses):
        sm, clock = box.clocks_mhz
        about = [str(index), box.gpu, f"00000000:{bus.upper()}", box.driver, box.capability]
        memory = [f"{box.gpu_mib} MiB", f"{box.gpu_mib - 636} MiB"]
        limits = [*(f"{watt} W" for watt in box.watts), f"{sm} MHz", f"{clock} MHz"]
        rows.append([*about, *memory, *limits, "1", "5", "16", "16", "Disabled", box.persistence, "Disabled"])
    return "\n".join(", ".join(row) for row in rows)


def long_form(box: Box) -> str:
    """Abridged to the sections that a probe reads and their neighbours."""
    text = "\n==============NVSMI LOG==============\n\nTimestamp                                              : "
    text += "Sat Nov 14 12:00:00 2026\n"
    text += f"Driver Version                                         : {box.driver}\n"
    text += f"CUDA Version                                           : {box.cuda}\n\n"
    text += f"Attached GPUs                                          : {len(box.buses)}\n"
    for bus in box.buses:
        text += f"GPU 00000000:{bus.upper()}\n"
        for name, value in (
            ("Product Name", box.gpu),
            ("Product Architecture", "Blackwell"),
            ("Display Active", "Disabled"),
            ("Persistence Mode", box.persistence),
            ("Addressing Mode", box.addressing),
        ):
            text += f"    {name:<50} : {value}\n"
        for name in ("State", "Status"):
            text += "    Fabric\n" if name == "State" else ""
            text += f"        {name:<46} : {box.fabric.get(name, 'N/A')}\n"
        text += f"    FB Memory Usage\n        Total                                          : {box.gpu_mib} MiB\n"
        text += "        Reserved                                       : 636 MiB\n"
        text += "        Used                                           : 0 MiB\n"
        text += f"        Free                                           : {box.gpu_mib - 636} MiB\n"
        text += f"    BAR1 Memory Usage\n        Total                                          : {box.bar1_mib} MiB\n"
        text += "        Used                                           : 1 MiB\n"
        text += f"        Free                                           : {box.bar1_mib - 1} MiB\n"
    return text


LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""


def topology(box: Box) -> str:
    names = [f"GPU{index}" for index in range(len(box.buses))] + [f"NIC{index}" for index in range(box.nics)]
    text = "\t\x1b[4m" + "\t".join([*names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]) + "\x1b[0m\n"
    for index, paths in enumerate(box.paths):
        near = ["PIX" if nic == index else ("NODE" if nic // 4 == index // 4 else "SYS") for nic in range(box.nics)]
        cells = [" X " if path == "X" else path for path in paths] + near
        node = box.nodes[index]
        text += "\t".join([f"GPU{index}", *cells, cpulist(box, node), str(node), "", "N/A"]) + "\n"
    return text + LEGEND


def peer_access(box: Box) -> str:
    names = [f"GPU{index}" for index in range(len(box.buses))]
    text = " \t" + "\t".join(names) + "\t\n"
    for index, name in enumerate(names):
        cells = ["X" if other == index else box.peers for other in range(len(names))]
        text += f" {name}\t" + "\t".join(cells) + "\t\n"
    return text + "\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n  CNS  = Chipset not supported\n"


def answers(box: Box) -> dict[str, Result]:
    kib = int(box.memory_gib * 0.983) * 1024**2
    nodes = range(max(box.nodes) + 1)
    said = {
        "lscpu": ok(lscpu(box)),
        "nproc": ok(str(box.cores * 2)),
        "meminfo": ok(
            f"MemTotal:       {kib} kB\nMemFree:        {kib - 9_000_000} kB\nMemAvailable:   {kib - 8_000_000} kB"
        ),
        "memory-limit": ok(""),
        "numa": ok("\n".join(f"{node}\t{cpulist(box, node)}\t{kib // len(nodes)}" for node in nodes)),
        "dmidecode": ok(dmidecode(box)),
        "udev-dmi": no_file("/run/udev/data/+dmi:id"),
        "nvidia-query": ok(query(box)),
        "nvidia-long": ok(long_form(box)),
        "display-devices": ok(
            "\n".join(f"0000:{b}\t0x10de\t{n}" for b, n in zip(box.buses, box.nodes, strict=bool(box.buses)))
        ),
        "topology": ok(topology(box)),
        "peer-access": ok(peer_access(box)),
        "uname": ok(f"{box.name} 6.8.0-79-generic x86_64"),
        "os-release": ok('PRETTY_NAME="Ubuntu 24.04.3 LTS"\nNAME="Ubuntu"\nVERSION_ID="24.04"\nID=ubuntu'),
        "driver-module": ok(
            f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {box.driver}  Release Build  (root@box)\n"
            "GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)"
        ),
        "nvcc": missing("nvcc"),
        "docker": missing("docker"),
        "docker-runtimes": missing("docker"),
        "podman": missing("podman"),
        "nvidia-ctk": ok(
            "NVIDIA Container Toolkit CLI version 1.17.8\ncommit: f202b80a9b9d0db00d9b1d73c0128c8962c55f4d"
        ),
        "cdi": Result(1, "", ""),
        "engines": ok("python3\t/usr/bin/python3"),
        "kernel-words": ok(""),
        "iommu-groups": ok(""),
        "bridges": ok("00:01.1 PCI bridge: bridge (rev 01)\n\tCapabilities: <access denied>"),
        "aspm": ok("[default] performance powersave powersupersave"),
        "governor": ok(f"    {box.cores * 2} performance"),
        "numa-balancing": ok("0"),
        "hmm": ok("Y"),
        "disks": ok(
            "Filesystem     Type  1024-blocks      Used  Available Capacity Mounted on\n"
            "tmpfs          tmpfs   158000000      3000  157997000       1% /run\n"
            "/dev/nvme0n1p2 ext4   1921802520 412301844 1411806812      23% /\n"
            "/dev/nvme1n1   ext4   7501423592 690112040 6433169112      10% /data"
        ),
        "model-cache": ok(
            "path\t/data/huggingface/hub\n"
            "df\t/dev/nvme1n1       7501423592 690112040 6433169112      10% /data\nused\t650012040"
        ),
        "shared-memory": ok(
            "Filesystem     1024-blocks  Used Available Capacity Mounted on\n"
            f"tmpfs            {kib // 2}     0 {kib // 2}       0% /dev/shm"
        ),
    }
    return {**said, **box.extra}


def near(count: int, group: int, inside: str, node: str, across: str) -> list[list[str]]:
    half = count // 2

    def path(a: int, b: int) -> str:
        if a == b:
            return "X"
        return inside if a // group == b // group else node if a // half == b // half else across

    return [[path(a, b) for b in range(count)] for a in range(count)]


def channels(sockets: int, letters: str) -> list[tuple[str, str]]:
    return [(f"P{socket} CHANNEL {letter}", "DIMM 0") for socket in range(sockets) for letter in letters]


def without_gpus() -> dict[str, Result]:
    tools = ("nvidia-query", "nvidia-long", "topology", "peer-access", "nvidia-ctk")
    return {
        **{name: missing("nvidia-smi") for name in tools},
        "display-devices": ok(""),
        "driver-module": no_file("/proc/driver/nvidia/version"),
        "hmm": no_file("/sys/module/nvidia_uvm/parameters/uvm_disable_hmm"),
    }


def with_vllm(folder: str, version: str) -> tuple[Result, list[tuple[tuple[str, ...], Result]]]:
    """What the two rounds say of a vLLM that is on the PATH there."""
    places = ok(f"vllm\t{folder}/vllm\t{folder}/python3\npython3\t{folder}/python3\t")
    (question,) = (argv for name, argv in engine_questions({"engines": places}).items() if name.endswith(" metadata"))
    return places, [(question, ok(f"vllm\t{version}\nvllm\t{version}"))]


VLLM_THERE, VLLM_SAYS = with_vllm("/opt/vllm/bin", "0.32.0+cpu")
BOXES = [
    Box(
        name="synthetic-8x-rtx-pro-6000-server",
        note="After the public report of January 2026 on Kimi K2 on 8x RTX PRO 6000 Blackwell Server Edition: GPUs, "
        "PIX pairs, two NUMA nodes of four GPUs, dual socket, about 1.5 TB. Processor model and the rest are invented; "
        "the settings are those of a fresh installation.",
        cpu="AMD EPYC 9355 32-Core Processor",
        vendor="AuthenticAMD",
        flags=ZEN5,
        sockets=2,
        cores=64,
        memory_gib=1536,
        dimms=channels(2, "ABCDEFGHIJKL"),
        dimm_gib=64,
        speed_mts=6400,
        gpu="NVIDIA RTX PRO 6000 Blackwell Server Edition",
        capability="12.0",
        gpu_mib=97887,
        watts=("600.00", "600.00"),
        clocks_mhz=(2430, 12481),
        buses=["11:00.0", "12:00.0", "41:00.0", "42:00.0", "91:00.0", "92:00.0", "c1:00.0", "c2:00.0"],
        nodes=[0, 0, 0, 0, 1, 1, 1, 1],
        paths=near(8, 2, "PIX", "NODE", "SYS"),
        driver="580.105.08",
        cuda="13.0",
        bar1_mib=131072,
        addressing="HMM",
        persistence="Disabled",
        extra={
            "docker": ok("28.5.1"),
            "docker-runtimes": ok('{"nvidia":{"path":"nvidia-container-runtime"},"runc":{"path":"runc"}}'),
            "iommu-groups": ok("    214 DMA-FQ"),
            "bridges": ok(
                "10:01.0 PCI bridge: PCIe switch (rev b0)\n"
                "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-\n"
                "10:02.0 PCI bridge: PCIe switch (rev b0)\n"
                "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-\n"
                "11:00.0 3D controller: NVIDIA Corporation GB202GL [RTX PRO 6000 Blackwell Server Edition] (rev a1)"
            ),
            "governor": ok("    128 schedutil"),
            "numa-balancing": ok("1"),
            "hmm": ok("N"),
        },
    ),
    Box(
        name="synthetic-2x-rtx-pro-6000-max-q",
        note="After the public report of April 2026 on Kimi K2.6 with ik_llama.cpp: EPYC 9175F, 768 GB DDR5-6400, two "
        "RTX PRO 6000 Blackwell Max-Q, Ubuntu 24.04, podman with CDI. The rest is invented.",
        cpu="AMD EPYC 9175F 16-Core Processor",
        vendor="AuthenticAMD",
        flags=ZEN5,
        sockets=1,
        cores=16,
        memory_gib=768,
        dimms=channels(1, "ABCDEFGHIJKL"),
        dimm_gib=64,
        speed_mts=6400,
        gpu="NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
        capability="12.0",
        gpu_mib=97887,
        watts=("300.00", "300.00"),
        clocks_mhz=(2280, 14001),
        buses=["01:00.0", "81:00.0"],
        nodes=[0, 0],
        paths=near(2, 1, "X", "NODE", "NODE"),
        driver="580.105.08",
        cuda="13.0",
        bar1_mib=131072,
        extra={
            "podman": ok("4.9.3"),
            "cdi": ok("/etc/cdi/nvidia.yaml"),
            "kernel-words": ok("amd_iommu=off\niommu=off\npcie_aspm=off"),
        },
    ),
    Box(
        name="synthetic-hgx-b200",
        note="After the public guide of 2026 to Kimi K2.6 on one HGX B200 node with docker. The rest is invented.",
        cpu="INTEL(R) XEON(R) PLATINUM 8570",
        vendor="GenuineIntel",
        flags=EMERALD,
        sockets=2,
        cores=112,
        memory_gib=2048,
        dimms=[(f"NODE {socket}", f"CPU{socket}_DIMM_{letter}{slot}")
               for socket in (1, 2) for letter in "ABCDEFGH" for slot in (1, 2)],
        dimm_gib=64,
        speed_mts=4800,
        gpu="NVIDIA B200",
        capability="10.0",
        gpu_mib=183359,
        watts=("1000.00", "1000.00"),
        clocks_mhz=(1965, 3996),
        buses=["1b:00.0", "43:00.0", "52:00.0", "61:00.0", "9d:00.0", "c3:00.0", "d1:00.0", "df:00.0"],
        nodes=[0, 0, 0, 0, 1, 1, 1, 1],
        paths=near(8, 8, "NV18", "NV18", "NV18"),
        driver="580.105.08",
        cuda="13.0",
        bar1_mib=262144,
        nics=8,
        fabric={"State": "Completed", "Status": "Success"},
        extra={
            "docker": ok("28.5.1"),
            "docker-runtimes": ok('{"nvidia":{"path":"nvidia-container-runtime"},"runc":{"path":"runc"}}'),
            "kernel-words": ok("intel_iommu=on\niommu=pt"),
            "iommu-groups": ok("    301 identity"),
        },
    ),
    Box(
        name="synthetic-xeon-amx",
        note="A machine without GPUs whose Xeon has AMX, with vLLM's CPU build, as one of ours was when its build "
        "failed there. The rest is invented.",
        cpu="INTEL(R) XEON(R) PLATINUM 8570",
        vendor="GenuineIntel",
        flags=EMERALD,
        sockets=1,
        cores=2,
        memory_gib=24,
        dimms=channels(1, "AB"),
        dimm_gib=12,
        speed_mts=4800,
        gpu="",
        capability="",
        gpu_mib=0,
        watts=("", ""),
        clocks_mhz=(0, 0),
        buses=[],
        nodes=[0],
        paths=[],
        driver="",
        cuda="",
        bar1_mib=0,
        extra={**without_gpus(), "engines": VLLM_THERE},
        second_round=VLLM_SAYS,
    ),
]  # fmt: skip


def main() -> None:
    for box in BOXES:
        said = answers(box)
        assert set(said) <= set(FIRST_ROUND), set(said) - set(FIRST_ROUND)
        entries = [(argv, said[name]) for name, argv in FIRST_ROUND.items() if name in said]
        entries += box.second_round
        write_recording(HERE / box.name, entries, name=box.name, made_by="synthesise.py", synthetic=True, note=box.note)


if __name__ == "__main__":
    main()
