"""SGLang's log -> its memory, by rank: 0.4 to 0.5.23. What it calls GB is 2**30 bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from upright.engines.facets.log import Log, Mark
from upright.engines.memory_report import (
    MemoryReport,
    Rank,
    Reading,
    count_pattern,
    gpu_of_rank,
    of_last_start,
    readings,
    spelling,
)

_K_AND_V = r"K size: # GB, V size: (?P<more>[\d.]+) GB"
SPELLINGS = (
    spelling("free_before", r"Load weight begin\. avail mem=# GB", keep="first"),
    spelling("free_loaded", r"Load weight end\..* avail mem=# GB"),
    spelling("weights", r"Load weight end\..* mem usage=# GB", keep="sum"),
    spelling("kv_cache", rf"KV Cache is allocated\..*{_K_AND_V}", keep="sum"),
    spelling("kv_cache", r"KV Cache is allocated\..* KV size: # GB", keep="sum"),
    spelling("kv_cache", r"Post-capture KV sizing: KV cache allocated\..* KV size: # GB"),
    spelling("free_after", r"Memory pool end\. avail mem=# GB"),
    spelling("free_after", r"Capture .*graph end\..* avail mem=# GB"),
    spelling("graphs", r"Capture .*graph end\..* mem usage=# GB", keep="sum"),
    count_pattern("capture_seconds", r"Capture .*graph end\..*(?:Time elapsed: |elapsed=)# s"),
    count_pattern("kv_tokens", r"KV [Cc]ache (?:is )?allocated\..*\x23tokens: #"),
    count_pattern("kv_tokens", r"\bmax_total_num_tokens=#"),
    count_pattern("context_tokens", r"\bcontext_len=#, available_[gc]pu_mem"),
)
_START = re.compile(r"^.*server_args=ServerArgs\(", re.MULTILINE)
_RANKS = re.compile(r"^\[[\d\- :.]+(?P<ranks>(?: (?:DP|PP|TP|EP|ATTN_DP|ATTN_CP|MOE_DP)\d+)*)\]")
_RANK = re.compile(r"(?P<kind>DP|PP|TP)(?P<number>\d+)")


def memory(log: str) -> MemoryReport:
    return of_last_start(log, _START, _read)


def _read(log: str) -> MemoryReport:
    devices = gpu_of_rank(_rank(line) for line in log.splitlines())
    report = readings(log, SPELLINGS, lambda line, _: devices[_rank(line)])
    return replace(report, readings=(*report.readings, *_weights_by_difference(report)))


def _rank(line: str) -> Rank:
    rank_match = _RANKS.match(line)
    ranks = {match["kind"]: int(match["number"]) for match in _RANK.finditer(rank_match["ranks"])} if rank_match else {}
    return Rank(ranks.get("DP", 0), ranks.get("PP", 0), ranks.get("TP", 0))


def _weights_by_difference(report: MemoryReport) -> Iterator[Reading]:
    """Until 0.4.4 the end of loading told only what was left."""
    for device in report.devices():
        before, after = report.of("free_before", device), report.of("free_loaded", device)
        if before and after and not report.of("weights", device):
            line = f"{before.line}, then {after.line}"
            yield Reading("weights", before.value - after.value, line, device, before.rounding + after.rounding)


LOG = Log(
    tracker="https://github.com/sgl-project/sglang/issues/new/choose",
    memory=memory,
    shape=r"[/\\]sglang[/\\]\S+\.py\b|\bsglang\.[a-z]\w+\.|\bServerArgs\("
    r"|^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:(?: [A-Z]{2,3}\d+)+\] |\] INFO: )",
    hints=r"\b(?:SGLANG|SGL)_[A-Z]\w+|\bsgl[_-]kernel\b|\bsgl-workspace\b|[/\\]srt[/\\]"
    r"|\b(?:Capture cuda graph failed|TokenizerManager|DetokenizerManager|ModelRpcServer|TpModelWorker|HiCache"
    r"|hicache|HiRadixCache|RadixCache|RadixAttention|ModelRunnerKVCache|ServerArgs|CudaGraphRunner"
    r"|EAGLEWorker|mem_fraction_static|chunked_prefill_size|disable_radix_cache|radix cache)\b"
    r"|(?<![\w-])(?:--mem-fraction-static|--tp-size|--dp-size|--ep-size|--pp-size|--context-length|--chunked-prefill-size"
    r"|--max-running-requests|--disable-radix-cache|--disable-cuda-graph|--cuda-graph-max-bs|--cuda-graph-bs"
    r"|--schedule-conservativeness|--enable-dp-attention|--moe-runner-backend|--moe-a2a-backend|--fp8-gemm-backend"
    r"|--speculative-algorithm|--speculative-num-steps|--speculative-eagle-topk|--speculative-num-draft-tokens"
    r"|--enable-torch-compile|--disaggregation-mode|--mamba-scheduler-strategy|--enable-hierarchical-cache|--hicache-\w+"
    r"|--watchdog-timeout|--dist-init-addr|--nnodes|--grammar-backend|--enable-mixed-chunk)(?![\w-])",
    family_shape=r"\bLoading safetensors checkpoint shards: ",
    marks=(
        Mark("start", r"server_args=ServerArgs\("),
        Mark("ready", r"server is fired up and ready to roll"),
        Mark("shutdown", r"SIGTERM received"),
        Mark("death", r"Received sigquit from a child|SIGQUIT received\."),
    ),
    serves=r"\] (?:Decode|Prefill) batch[.,]",
    answers=r"\] Decode batch[.,]",
    echo=r"Received sigquit from a child|SIGQUIT received\.",
    bars=(
        (r"\b[Ll]oading (?:\w+ )*(?:checkpoint )?shards:", "weights"),
        (r"\bCapturing (?:batches|num tokens)", "graphs"),
        (r"\bDeepGEMM JIT\b", "compile"),
    ),
    phases=(
        (r"Load weight begin\.", "weights"),
        (r"Capture cuda graph begin", "graphs"),
        (r"Capture cuda graph end", "warmup"),
    ),
)
