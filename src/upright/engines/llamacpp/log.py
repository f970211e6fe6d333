"""llama-server's log -> its memory, by device: llama.cpp b4000 to b11669, and ik_llama.cpp.

Buffers are named by their kind: CUDA0 is on a GPU; CUDA_Host, CPU, CPU_Mapped and CPU_REPACK are in system RAM.
"""

from __future__ import annotations

import re

from upright.engines.facets.log import Log, Mark, RequestTiming
from upright.engines.memory_report import HOST, MemoryReport, count_pattern, in_mebibytes, of_last_start, readings

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
    count_pattern(
        "context_tokens", r"(?:llama_context|llama_init_from_model|llama_new_context_with_model): n_ctx\s+= #"
    ),
)
_TIMED = r"\btask (?P<task>\d+) \|\s+(?P<part>prompt eval|eval) time =\s+(?P<ms>\d+\.\d+) ms /\s+(?P<tokens>\d+) tokens"
_TIMING = re.compile(_TIMED)
_START = re.compile(r"^.*\bsystem[_ ]info\b", re.MULTILINE)
_GPU = re.compile(r"(?:CUDA|ROCm|Vulkan|SYCL|MUSA|CANN|HIP)(\d+)")


def memory(log: str) -> MemoryReport:
    return of_last_start(log, _START, lambda life: readings(life, SPELLINGS, _device))


def timings(log: str) -> tuple[RequestTiming, ...]:
    """Two lines a task (b11669): its prompt, then its answer."""
    prompts: dict[str, tuple[int, float]] = {}
    ended = []
    for line in _TIMING.finditer(log):
        tokens, seconds = int(line["tokens"]), float(line["ms"]) / 1000
        if line["part"] == "prompt eval":
            prompts[line["task"]] = tokens, seconds
        else:
            ended.append(RequestTiming(*prompts.pop(line["task"], (0, 0.0)), tokens, seconds))
    return tuple(ended)


def _device(_: str, named: str | None) -> str | None:
    if named is None:
        return None
    if gpu_match := _GPU.match(named):
        return f"gpu{gpu_match[1]}"
    if named.startswith(("CPU", "CUDA_Host", "ROCm_Host", "Vulkan_Host", "SYCL_Host", "BLAS", "AMX")):
        return HOST
    return "gpu0" if named.startswith(("Metal", "MTL")) else None


LOG = Log(
    tracker="https://github.com/ggml-org/llama.cpp/issues/new/choose",
    memory=memory,
    timings=timings,
    timed=_TIMED,
    shape=r"^\d+\.\d\d\.\d{3}\.\d{3} [A-Z] |llama_server: |common_params_print_info"
    r"|^llama_model_load_from_file_impl: |^build: \d+ \([0-9a-f]{7,}\) with ",
    hints=r"\bGGML_[A-Z]\w+|\bggml_\w+|\bggml[\w-]*\.(?:cpp|cu|c|m|h|metal)\b|\bllama_\w+(?::|\()|\bllama-[\w-]+\.cpp\b"
    r"|\bllm_(?:load|build)_\w+|\bcommon_(?:chat|sampler|init|speculative|params|grammar)\w*|\b(?:mtmd|clip)(?:\.cpp\b|_\w+)"
    r"|^(?:srv|slot|que) +\w+: |^slot \w+: +id |\bLLAMA_(?!3)[A-Z]\w+"
    r"|(?<![\w-])(?:-ngl|-ctk|-ctv|-ncmoe|-ot|--n-gpu-layers|--gpu-layers|--cache-type-[kv]|--override-tensor|--n-cpu-moe"
    r"|--cpu-moe|--tensor-split|--split-mode|--no-mmap|--mmproj|--jinja|--flash-attn|--ctx-size|--parallel|--kv-unified"
    r"|--cache-ram|--draft-max|--rpc)(?![\w-])",
    family_shape=r"^(?:llama_model_loader|llama_model_load|llama_load_model_from_file|llm_load_\w+|print_info): "
    r"|^ggml_\w+: found \d+ |^common_\w+: ",
    marks=(
        Mark("start", r"llama_server: initializing"),  # b11669
        Mark("start", r"\bmain\] build info \|"),  # of 2024, and ik_llama.cpp
        Mark("ready", r"HTTP server listening"),
        Mark("death", r"GGML_ASSERT\(|GGML_ABORT|exiting due to "),
        Mark("death", r": failed to load model\b|unable to load model\b"),  # of all years
    ),
    serves=r"\bslots?_idle\b|\b(?:slot|srv) +(?:print_timing|update_slots|launch_slot_|release|log_server_r): "
    r"|: all slots are idle",
    answers=r"\b(?:slot|srv) +(?:print_timing|log_server_r: (?:done )?request: POST \S+ \S+ 200)\b",
    complaint=r"^\d+\.\d\d\.\d{3}\.\d{3} E |GGML_ASSERT\(|GGML_ABORT|\berror loading model: ",
    echo=r"exiting due to |: (?:failed|unable) to load model\b|^(?:\S+ )?E (?:srv|cmn) +\S+: error loading model",
    phases=(
        (r"(?:llm_)?load_tensors: loading model tensors", "weights"),
        (r"warming up the model with an empty run", "warmup"),
    ),
    dots=True,
    silent_hint="its buffers are logged only from --log-verbosity 4 up, which `render` sets",
    maps_weights=True,
    clears_cache=True,
)
