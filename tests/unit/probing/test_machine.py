"""Parsers on text, and this very machine without any pretence."""

import os

from upright.host import LocalHost, Result
from upright.probing import machine, probe


def test_this_machine_gives_a_complete_honest_box():
    box = probe(LocalHost())
    assert box.name == os.uname().nodename
    assert box.cpu.threads == len(os.sched_getaffinity(0))
    assert box.memory_bytes.value == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert box.memory_bytes.basis == "probed"


def test_a_machine_that_tells_nothing_gives_unknowns_and_no_exception():
    total, available = machine.read_memory({})
    assert total.value is None
    assert total.source == "/proc/meminfo has no MemTotal"
    assert available.value is None
    assert machine.read_cpu({}).name == "unknown processor"


def test_cpuinfo_serves_where_lscpu_is_missing():
    one = "processor : {n}\nmodel name : Some CPU\nphysical id\t: {socket}\ncpu cores\t: 2\nflags\t: avx2 amx_tile\n"
    cpuinfo = "\n".join(one.format(n=n, socket=n // 2) for n in range(4))
    cpu = machine.read_cpu({"lscpu": Result(127, "", "not found"), "cpuinfo": Result(0, cpuinfo, "")})
    assert (cpu.name, cpu.sockets, cpu.cores, cpu.threads) == ("Some CPU", 2, 4, 4)
    assert cpu.flags == ("amx_tile", "avx2")
