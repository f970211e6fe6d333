"""What drivers say, and what they say when they do not."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from upright import plan
from upright.base.host import Result
from upright.planning.probing import probe
from upright.planning.probing.links import matrix, read_links
from upright.planning.probing.nvidia import read_gpus
from upright.planning.probing.probe_rounds import FIRST_ROUND
from upright.planning.probing.questions import Answers

HEADER = "index, name, pci.bus_id, compute_cap, memory.total [MiB], memory.free [MiB], power.limit [W]\n"
SPARK = HEADER + "0, NVIDIA GB10, 0000000F:01:00.0, 12.1, [N/A], [N/A], [N/A]\n"
DIVORCED = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest "
    "NVIDIA driver is installed and running.\n"
)


class Says:
    """A host that answers the named questions and could not start the others."""

    name = "box"

    def __init__(self, answers: Answers) -> None:
        self._answers = {tuple(FIRST_ROUND[name]): result for name, result in answers.items()}

    def run(self, argv, *, timeout_seconds=20):
        return self._answers.get(tuple(argv), Result(127, "", "not found"))

    def gather(self, commands, *, timeout_seconds=20):
        return [self.run(argv) for argv in commands]


def test_memory_that_gpu_and_processor_share():
    meminfo = "MemTotal:       125440000 kB\nMemAvailable:   120000000 kB\n"
    box = probe(Says({"nvidia-query": Result(0, SPARK, ""), "meminfo": Result(0, meminfo, "")}))
    (gpu,) = box.gpus
    assert gpu.compute_capability == "12.1"
    assert gpu.memory_bytes.value == 125_440_000 * 1024
    assert gpu.memory_bytes.basis == "derived"
    assert gpu.power_limit_watts.value is None
    assert gpu.power_limit_watts.source == "nvidia-smi power.limit says [N/A]"


def test_a_gpu_that_the_catalogue_does_not_know():
    text = HEADER + "0, NVIDIA Nonesuch 9000, 00000000:01:00.0, 15.0, 1024 MiB, 1000 MiB, 99.50 W\n"
    (gpu,) = probe(Says({"nvidia-query": Result(0, text, "")})).gpus
    assert (gpu.row, gpu.memory_bytes.value, gpu.power_limit_watts.value) == (None, 1024**3, 99.5)
    assert gpu.memory_bandwidth_bytes_per_second.value is None
    assert "Nonesuch" in (gpu.memory_bandwidth_bytes_per_second.source or "")


def test_cards_of_several_names_are_numbered_as_the_driver_does():
    rows = (
        "0, NVIDIA GeForce RTX 3060, 00000000:01:00.0, 8.6, 12288 MiB, 12000 MiB, 170.00 W\n"
        "1, NVIDIA GeForce RTX 3090, 00000000:21:00.0, 8.6, 24576 MiB, 24200 MiB, 350.00 W\n"
        "2, NVIDIA GeForce RTX 3060, 00000000:41:00.0, 8.6, 12288 MiB, 12000 MiB, 170.00 W\n"
    )
    box = probe(Says({"nvidia-query": Result(0, HEADER + rows, "")}))
    assert [gpu.row for gpu in box.gpus] == ["rtx-3060", "rtx-3090", "rtx-3060"]
    assert box.gpu_kinds == ((0, 2), (1,))
    small = plan("gpt-oss-20b", box, context_tokens=8192, engine="llama.cpp")[0]
    assert small.gpus == (1,)
    large = plan("qwen3-32b:Q8_0", box, context_tokens=8192, engine="llama.cpp")[0]
    layers = [place.layers for place in large.layer_places]
    assert large.gpus == (0, 1, 2)
    assert layers[1] > 2 * max(layers[0], layers[2])


def test_a_driver_that_does_not_answer_is_seen():
    bus = "0000:01:00.0\t0x10de\t0\n0000:03:00.0\t0x1a03\t-1\n"
    box = probe(Says({"nvidia-query": Result(9, DIVORCED, ""), "display-devices": Result(0, bus, "")}))
    assert box.gpus == ()
    (driver,) = [setting for setting in box.settings if setting.name == "nvidia_driver"]
    assert driver.verdict == "attention"
    assert driver.state.startswith("1 on the bus, 0 served: NVIDIA-SMI has failed")


def test_another_vendors_gpu_is_named_and_not_served():
    box = probe(Says({"display-devices": Result(0, "0000:01:00.0\t0x1002\t0\n", "")}))
    (driver,) = [setting for setting in box.settings if setting.name == "nvidia_driver"]
    assert driver.state == "no NVIDIA GPU on the bus (but AMD)"


def test_a_name_with_a_comma_breaks_one_row_and_not_the_probe():
    assert len(read_gpus({"nvidia-query": Result(0, HEADER + "0, A, B, C\nx\n", "")})) == 1


def test_newer_drivers_call_it_umd():
    text = "KMD Version                 : 610.57.04\nCUDA UMD Version            : 13.3\n"
    software = probe(Says({"nvidia-long": Result(0, text, "")})).software
    assert (software.driver, software.cuda) == ("610.57.04", "13.3")


def test_a_matrix_with_network_cards_and_colours():
    text = (
        "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
        "GPU0\t X \tNV12\tPXB\t0-31\t0\t\tN/A\nGPU1\tNV12\t X \tSYS\t32-63\t1\t\tN/A\nNIC0\tPXB\tSYS\t X \t\t\t\n"
    )
    assert matrix(text) == {(0, 1): "NV12", (1, 0): "NV12"}
    (link,) = read_links({"topology": Result(0, text, "")})
    assert (link.nvlinks, link.peer_access) == (12, None)
    box = probe(
        Says(
            {
                "topology": Result(0, text, ""),
                "nvidia-query": Result(
                    0, HEADER + "0, A, 0:1:0.0, 9.0, 1 MiB, 1 MiB, 1 W\n1, A, 0:2:0.0, 9.0, 1 MiB, 1 MiB, 1 W\n", ""
                ),
            }
        )
    )
    assert [gpu.numa_node for gpu in box.gpus] == [0, 1]


_LINES = st.lists(
    st.sampled_from(
        [
            "GPU0\t X \tPIX", "GPU0 GPU1", "0, x, y", "index, name", "MemTotal: 5 kB", "E:MEMORY_DEVICE_0_SIZE=x",
            "Handle 0x1\nMemory Device\n\tSize: 1 GB", '{"lscpu": [{}]}', '{"lscpu": 5}', "[]", "path\tx", "df\t1 2 3",
            "0\t0-1\t", "a\tb", "GPU 00000000:01:00.0", "BAR1 Memory Usage", "   Total : x MiB", "version: ",
            "\t\t", "\x1b[4mGPU0", "memory.max\t1\t2\t3", "x" * 50,
        ]
    )
    | st.text(max_size=40),
    max_size=8,
).map("\n".join)  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(sorted(FIRST_ROUND)), st.tuples(st.sampled_from([0, 1, 127]), _LINES)))
def test_no_answer_of_any_tool_is_an_exception(said):
    answers = {name: Result(code, text, "") for name, (code, text) in said.items()}
    box = probe(Says(answers))
    assert box.basis == "probed"
