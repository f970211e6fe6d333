"""Parsers on text, and this very machine without any pretence."""

import os
import subprocess
from pathlib import Path

from upright.base.host import LocalHost, Result
from upright.facts.records.base import Figure, Part, from_json
from upright.facts.records.box import Box
from upright.planning.probing import machine, probe


def test_this_machine_gives_a_complete_honest_box():
    box = probe(LocalHost())
    assert box.name == os.uname().nodename
    assert box.cpu.threads == len(os.sched_getaffinity(0))
    assert box.memory_bytes.value == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert box.memory_bytes.basis == "probed"


def test_every_unknown_of_this_machine_says_why():
    box = probe(LocalHost())
    assert (box.gpus, box.links) == ((), ()) or box.gpus, "links without GPUs"
    assert box.numa
    assert box.disks
    assert box.software.kernel == os.uname().release
    assert box.model_cache is not None
    unknowns = [figure for figure in _figures(box) if figure.value is None]
    assert all(figure.source for figure in unknowns)
    assert {setting.name for setting in box.settings} >= {"iommu", "acs", "governor", "nvidia_driver"}
    assert from_json(Box, box.to_json()) == box


def _figures(part):
    """Every figure anywhere in a record."""
    for name in type(part).model_fields:
        value = getattr(part, name)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Figure):
                yield item
            elif isinstance(item, Part):
                yield from _figures(item)


def test_a_machine_that_tells_nothing_gives_unknowns_and_no_exception():
    total, available = machine.read_memory({})
    assert total.value is None
    assert total.source == "/proc/meminfo has no MemTotal"
    assert available.value is None
    cpu = machine.read_cpu({})
    assert (cpu.name, cpu.sockets, cpu.cores, cpu.threads) == ("unknown processor", None, None, None)


def test_cpuinfo_serves_where_lscpu_is_missing():
    cpuinfo = (
        "processor\t: 0\nmodel name\t: Some CPU\nsiblings\t: 4\ncpu cores\t: 2\nflags\t\t: sse avx2 amx_tile\n\n8\n"
    )
    cpu = machine.read_cpu({"lscpu": Result(127, "", "not found"), "cpuinfo": Result(0, cpuinfo, "")})
    assert (cpu.name, cpu.sockets, cpu.cores, cpu.threads) == ("Some CPU", 2, 4, 8)
    assert cpu.flags == ("amx_tile", "avx2")


def test_a_containers_limit_is_what_is_available():
    answers = {
        "meminfo": Result(0, "MemTotal:       64000000 kB\nMemAvailable:   60000000 kB\n", ""),
        "memory-limit": Result(0, "/sys/fs/cgroup/memory.max\t8589934592\t1073741824\n", ""),
    }
    total, available = machine.read_memory(answers)
    assert total.value == 64_000_000 * 1024
    assert available.value == 7 * 1024**3
    assert available.source == "/sys/fs/cgroup/memory.max minus what is used"


def test_no_limit_is_no_limit():
    answers = {
        "meminfo": Result(0, "MemTotal:       64000000 kB\nMemAvailable:   60000000 kB\n", ""),
        "memory-limit": Result(0, "/sys/fs/cgroup/memory.max\tmax\t1073741824\n", ""),
    }
    assert machine.read_memory(answers)[1].source == "/proc/meminfo MemAvailable"


def test_the_limits_of_every_cgroup_above_are_read(tmp_path: Path):
    """A slice inside a slice: the script itself, on a tree that looks so."""
    group = tmp_path / "cgroup/user.slice/run.scope"
    group.mkdir(parents=True)
    for folder, limit in ((group, "max"), (group.parent, "8589934592")):
        (folder / "memory.max").write_text(f"{limit}\n")
        (folder / "memory.current").write_text("1073741824\n")
    own = tmp_path / "own"
    own.write_text("4:memory:/\n0::/user.slice/run.scope\n")
    words = machine.QUESTIONS["memory-limit"][2].replace("/sys/fs/cgroup", str(tmp_path / "cgroup"))
    words = words.replace("/proc/self/cgroup", str(own))
    said = subprocess.run(["sh", "-c", words], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == [
        f"{folder}/memory.max\t{limit}\t1073741824" for folder, limit in ((group, "max"), (group.parent, "8589934592"))
    ]
