"""What real machines printed, as people pasted it in public."""

from upright.base.host import Result
from upright.planning.probing.links import matrix, numa_affinities, read_links
from upright.planning.probing.memory_modules import read_modules
from upright.planning.probing.nvidia import fabric_states

# https://github.com/noonghunna/club-3090/issues/46: five GPUs on two sockets, blanks where the tool wrote tabs
FIVE = """
        GPU0    GPU1    GPU2    GPU3    GPU4    CPU Affinity    NUMA Affinity   GPU NUMA ID
GPU0     X      SYS     SYS     SYS     SYS     8-15,24-31      1               N/A
GPU1    SYS      X      PHB     NODE    NODE    0-7,16-23       0               N/A
GPU2    SYS     PHB      X      NODE    NODE    0-7,16-23       0               N/A
GPU3    SYS     NODE    NODE     X      PHB     0-7,16-23       0               N/A
GPU4    SYS     NODE    NODE    PHB      X      0-7,16-23       0               N/A

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
"""

# https://github.com/noonghunna/club-3090/issues/1229: two RTX 5090 on the stock driver
NO_PEERS = " \tGPU0\tGPU1\t\n GPU0\tX\tGNS\t\n GPU1\tGNS\tX\t\n\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n"
PHB = (
    "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    "GPU0\t X \tPHB\t0-63\t0\t\tN/A\nGPU1\tPHB\t X \t0-63\t0\t\tN/A\n"
)

# https://github.com/noonghunna/club-3090/issues/1130: labelled 5600, running at 4200
SLOWER = """# dmidecode 3.7
Getting SMBIOS data from sysfs.
SMBIOS 3.6.0 present.

Handle 0x0011, DMI type 17, 92 bytes
Memory Device
        Array Handle: 0x000E
        Error Information Handle: 0x0010
        Total Width: 64 bits
        Data Width: 64 bits
        Size: 32 GiB
        Form Factor: DIMM
        Locator: DIMM 0
        Bank Locator: P0 CHANNEL A
        Type: DDR5
        Type Detail: Synchronous Unbuffered (Unregistered)
        Speed: 5600 MT/s
        Configured Memory Speed: 4200 MT/s
"""

# https://github.com/cyring/CoreFreq/issues/378: an empty slot
EMPTY = """Handle 0x0013, DMI type 17, 92 bytes
Memory Device
\tTotal Width: Unknown
\tSize: No Module Installed
\tLocator: DIMM 0
\tBank Locator: P0 CHANNEL A
\tSpeed: Unknown
\tVolatile Size: None
"""

# https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/626
FABRIC = """    Fabric
        State                             : Completed
        Status                            : Success
        CliqueId                          : 2
        Health
            Summary                       : Unhealthy
"""


def test_five_gpus_on_two_sockets():
    paths = matrix(FIVE)
    assert len(paths) == 20
    assert (paths[0, 1], paths[1, 2], paths[1, 3], paths[3, 4]) == ("SYS", "PHB", "NODE", "PHB")
    assert numa_affinities({"topology": Result(0, FIVE, "")}) == {0: 1, 1: 0, 2: 0, 3: 0, 4: 0}


def test_two_cards_whose_driver_offers_no_peer_access():
    (link,) = read_links({"topology": Result(0, PHB, ""), "peer-access": Result(0, NO_PEERS, "")})
    assert (link.path, link.peer_access) == ("PHB", "GNS")


def test_memory_that_runs_slower_than_its_label_beside_an_empty_slot():
    modules, bandwidth = read_modules({"dmidecode": Result(0, SLOWER + "\n" + EMPTY, "")})
    assert (modules.count.value, modules.speed_mega_transfers_per_second.value) == (1, 4200)
    assert bandwidth.value == 33_600_000_000


def test_a_fabric_that_is_up():
    assert fabric_states({"nvidia-long": Result(0, FABRIC, "")}) == {"Completed, Success"}
