"""llama-server's log -> its memory, by device: llama.cpp b4000 to b11669, and ik_llama.cpp.

Buffers are named by their kind: CUDA0 is on a GPU; CUDA_Host, CPU, CPU_Mapped and CPU_REPACK are in main memory.
"""

from __future__ import annotations

import re

from upright.engines.facets.log import Log
from upright.engines.memory_report import HOST, MemoryReport, counted, in_mebibytes, of_last_start, readings

_BUFFER = r"(?P<device>[A-Za-z]\w*)"
SPELLINGS = (
    in_mebibytes("weights", rf"load_tensors:\s+{_BUFFER}(?: model)? buffer size =\s+# MiB", keep="sum"),
    in_mebibytes("kv_cache", rf":\s+{_BUFFER} (?:KV|RS) buffer size =\s+# MiB", keep="sum"),
    in_mebibytes("compute", rf":\s+{_BUFFER} compute buffer size =\s+# MiB"),
    in_mebibytes("output", rf":\s+{_BUFFER}\s+output buffer size =\s+# MiB"),
    # total = free + (self = model + context + compute) + unaccounted; printed before loading it is below zero, or
    # wraps around to twenty digits.
    in_mebibytes(
        "runtime", rf"- {_BUFFER} \([^)]*\)[ |:]+\d+ =\s+\d+ \+ \([^)]*\) \+\s+(?P<value>\d{{1,6}})\s*(?:\||$)"
    ),
    counted("context_tokens", r"(?:llama_context|llama_init_from_model|llama_new_context_with_model): n_ctx\s+= #"),
)
_START = re.compile(r"^.*\bsystem[_ ]info\b", re.MULTILINE)
_GPU = re.compile(r"(?:CUDA|ROCm|Vulkan|SYCL|MUSA|CANN|HIP)(\d+)")


def memory(log: str) -> MemoryReport:
    return of_last_start(log, _START, lambda life: readings(life, SPELLINGS, _device))


def _device(_: str, named: str | None) -> str | None:
    if named is None:
        return None
    if found := _GPU.match(named):
        return f"gpu{found[1]}"
    if named.startswith(("CPU", "CUDA_Host", "ROCm_Host", "Vulkan_Host", "SYCL_Host", "BLAS", "AMX")):
        return HOST
    return "gpu0" if named.startswith(("Metal", "MTL")) else None


LOG = Log(memory=memory, maps_weights=True, clears_cache=True)
