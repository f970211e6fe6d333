"""Measures the bandwidth of system RAM with a short read.

Every thread searches its own buffer for a byte that is not there (memchr), which reads each cache line once and writes
nothing: close to what decoding does with expert weights. It says nothing of latency, and little of a single NUMA node.
"""

from __future__ import annotations

from upright.base.bounds.bounded_json import parse_json
from upright.base.host import Host
from upright.base.units import GIB, MIB, format_memory
from upright.facts.records.base import Figure, unknown

# Larger than the last-level cache of any processor here (512 MB on an EPYC 9175F), so that memory answers.
LARGEST_BYTES = 4 * GIB
SMALLEST_BYTES = 64 * MIB
PASSES = 3
TIMEOUT_SECONDS = 60
_BUSY = 0.25

_SCRIPT = """
import ctypes, json, os, sys, threading, time
total, passes, busy = int(sys.argv[2]), int(sys.argv[3]), os.getloadavg()[0]
threads = len(os.sched_getaffinity(0))
piece = total // threads
libc = ctypes.CDLL(None)
libc.memchr.restype, libc.memchr.argtypes = ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
start, end = threading.Barrier(threads + 1), threading.Barrier(threads + 1)
def work():
    buffer = ctypes.create_string_buffer(piece)
    ctypes.memset(buffer, 1, piece)
    for _ in range(passes + 1):
        start.wait()
        libc.memchr(buffer, 0, piece)
        end.wait()
for _ in range(threads):
    threading.Thread(target=work, daemon=True).start()
seconds = []
for _ in range(passes + 1):
    start.wait()
    begun = time.perf_counter()
    end.wait()
    seconds.append(time.perf_counter() - begun)
print(json.dumps({"bytes": piece * threads, "threads": threads, "seconds": seconds[1:], "load": busy}))
"""


def measure(host: Host, available: Figure) -> Figure:
    """Uses at most an eighth of the memory that is available; the best of three passes counts."""
    if available.value is None:
        return unknown("not measured: available memory is unknown")
    total = int(min(LARGEST_BYTES, available.value // 8))
    if total < SMALLEST_BYTES:
        return unknown(f"not measured: only {format_memory(available.value)} of memory is available")
    argv = ["python3", "-c", _SCRIPT, "read-memory", str(total), str(PASSES)]
    completed = host.run(argv, timeout_seconds=TIMEOUT_SECONDS)
    try:
        measurement = parse_json(completed.out)
        rate = measurement["bytes"] / min(measurement["seconds"])
        threads, load = int(measurement["threads"]), float(measurement["load"])
    except (ValueError, KeyError, TypeError, ZeroDivisionError):
        return unknown(f"the measurement gave no result: {(completed.err.strip().splitlines() or ['no word'])[-1]}")
    how = f"memchr over {format_memory(measurement['bytes'])} by {threads} threads, best of {PASSES}; reads only"
    if load > threads * _BUSY:
        how += f"; others were at work (load {load:.1f}), so expect more"
    return Figure(value=int(rate), basis="measured", source=how)
