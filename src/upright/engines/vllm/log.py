"""vLLM's log -> its memory, by rank: 0.6 to 0.32, on GPUs and on CPUs."""

from __future__ import annotations

import re

from upright.engines.facets.log import Log, Mark
from upright.engines.memory_report import (
    HOST,
    MemoryReport,
    Rank,
    count_pattern,
    gpu_of_rank,
    of_last_start,
    readings,
    spelling,
)

# What vLLM calls GB is 2**30 bytes in every version that wrote so (vllm/worker/model_runner.py, DeviceMemoryProfiler).
SPELLINGS = (
    spelling("weights", r"Model loading took # Gi?B"),
    spelling("weights", r"Loading model weights took # GB"),
    spelling("weights", r"model weights take #GiB"),
    spelling("weights", r"Actual usage(?: is|:) # GiB for weights?,"),
    spelling("non_torch", r"non_torch_memory(?: takes |=)#GiB"),
    spelling("non_torch", r"# GiB for non-torch memory"),
    spelling("activations", r"PyTorch activation peak memory takes #GiB"),
    spelling("activations", r"# GiB for peak activation"),
    spelling("kv_cache", r"the rest of the memory reserved for KV Cache is #GiB"),
    spelling("kv_cache", r"\bkv_cache_size=#GiB"),
    spelling("kv_cache", r"Available KV cache memory: # GiB"),
    spelling("kv_cache", r"reserved # GiB memory for KV Cache as specified"),
    spelling("kv_cache", r"(?:Explicitly|Auto) set \(#/[\d.]+\) GiB for KV cache"),
    spelling("graphs", r"Graph capturing finished in \d+ secs, took # GiB"),
    spelling("graphs_reserved", r"Estimated CUDA graph memory: # GiB total"),
    spelling("requested", r"Desired GPU memory utilization is \([\d.]+, # GiB\)"),
    spelling("requested", r"total_gpu_memory \([\d.]+GiB\) x gpu_memory_utilization \([\d.]+\) = #GiB"),
    spelling("total", r"Free memory on device \([\d.]+/# GiB\)"),
    spelling("total", r"the current vLLM instance can use total_gpu_memory \(#GiB\)"),
    spelling("free_before", r"Free memory on device \(#/[\d.]+ GiB\)"),
    count_pattern("kv_tokens", r"(?:GPU|CPU|XPU)(?: \+ host)? KV cache size: # tokens"),
    count_pattern("concurrency", r"Maximum concurrency for [\d,]+ tokens per request: #x"),
    count_pattern("context_tokens", r"Using max model len #"),
    count_pattern("capture_seconds", r"Graph capturing finished in # secs"),
)
_START = re.compile(r"^.*Initializing an? (?:V1 )?LLM engine", re.MULTILINE)
_WORKER = re.compile(r"\(?(?:Vllm)?Worker(?P<name>[\w =-]*?) ?pid=(?P<pid>\d+)")
_RANK = re.compile(r"(?P<kind>DP|PP|TP|rank=)_?(?P<number>\d+)")
_ON_CPU = re.compile(r"for KV cache on node|cpu_worker\.py")


def memory(log: str) -> MemoryReport:
    return of_last_start(log, _START, _read)


def _read(log: str) -> MemoryReport:
    devices = gpu_of_rank(_worker(line) for line in log.splitlines())

    def device_of(line: str, _: str | None) -> str | None:
        return HOST if _ON_CPU.search(line) else devices[_worker(line)]

    return readings(log, SPELLINGS, device_of)


def _worker(line: str) -> Rank:
    """The worker that wrote the line; what names none comes from the first."""
    worker_match = _WORKER.search(line)
    if worker_match is None:
        return Rank()
    ranks = {match["kind"]: int(match["number"]) for match in _RANK.finditer(worker_match["name"])}
    if ranks:
        return Rank(ranks.get("DP", 0), ranks.get("PP", 0), ranks.get("TP", ranks.get("rank=", 0)))
    # Guard: until 0.8 the first rank wrote without a name and the others as VllmWorkerProcess without a rank
    # (https://github.com/vllm-project/vllm/issues/14011).
    return Rank(process=int(worker_match["pid"])) if worker_match["name"].startswith("Process") else Rank()


LOG = Log(
    tracker="https://github.com/vllm-project/vllm/issues/new/choose",
    memory=memory,
    shape=r"^(?:INFO|WARNING|ERROR|CRITICAL|DEBUG) \d\d-\d\d \d\d:\d\d:\d\d |[/\\]vllm[/\\]\S+\.py\b"
    r"|\bvLLM is using |\((?:APIServer|EngineCore|Worker|VllmWorker)\w* [^)]*pid=\d+\)|^vllm\b.*: error: "
    r"|\bvllm\.[a-z]\w+\.|\bvLLM API server version |\bInitializing an? (?:V1 )?LLM engine ",
    hints=r"\b(?:EngineCore|EngineDeadError|AsyncEngineDeadError|AsyncLLM(?:Engine)?|VllmWorker|MultiprocExecutor"
    r"|Worker_[TPD]P\d|WorkerProc|APIServer)|\bVLLM_[A-Z]\w+"
    r"|(?<!srt/)\b(?:model_executor/(?:layers|models|model_loader|parameter|custom_op|utils)"
    r"|v1/(?:engine|worker|core|executor|attention|spec_decode|sample|kv_offload|structured_output|metrics)"
    r"|entrypoints/(?:openai/(?:api_server|serving|cli_args|run_batch)|llm\.py|cli/|chat_utils)"
    r"|distributed/(?:kv_transfer|device_communicators|parallel_state|eplb)|compilation/(?:backends|wrapper|cuda_graph)"
    r"|engine/(?:arg_utils|async_llm_engine|llm_engine|multiprocessing)|worker/(?:gpu_)?(?:model_runner|worker))"
    r"|(?<![\w-])(?:--gpu-memory-utilization|--max-model-len|--max-num-seqs|--max-num-batched-tokens|--enforce-eager"
    r"|--enable-auto-tool-choice|--kv-transfer-config|--compilation-config|--distributed-executor-backend"
    r"|--limit-mm-per-prompt|--enable-expert-parallel|--enable-prefix-caching|--no-enable-prefix-caching"
    r"|--speculative-config|--async-scheduling|--block-size|--swap-space|--cpu-offload-gb|--all2all-backend"
    r"|--enable-chunked-prefill|--decode-context-parallel-size|--mm-processor-kwargs)(?![\w-])"
    r"|\b(?:gpu_memory_utilization|max_model_len|max_num_seqs|max_num_batched_tokens|enforce_eager|compilation_config"
    r"|kv_transfer_config|speculative_config|GPUModelRunner|mm_hash)\b",
    family_shape=r"\bLoading safetensors checkpoint shards: ",
    marks=(
        Mark("start", r"█  version \S"),  # its banner, since 0.17
        Mark("start", r"\bvLLM API server version "),  # before
        Mark("ready", r"Starting vLLM (?:API )?server (?:\d+ )?on \w+:"),  # whatever --uvicorn-log-level is
        # Guard: a vLLM that is asked to stop ends with a traceback of EngineDeadError (0.32.0, core_client.py).
        Mark("shutdown", r"received signal=SIGTERM|shutdown triggered"),
        Mark("death", r"Engine core initialization failed|EngineDeadError"),
    ),
    complaint=r"\bFailed: (?:Cuda error )?\S+:\d+ '",  # csrc/custom_all_reduce.cuh
    serves=r"throughput: *[\d.]+ tokens/s",
    answers=r"\bgeneration throughput: (?!0\.0 )[\d.]+ tokens/s",
    echo=r"EngineDeadError|initialization failed|get_response_or_error|WorkerProc hit an exception"
    r"|Worker proc \S+ died unexpectedly",
    bars=(
        (r"\b[Ll]oading (?:\w+ )*(?:checkpoint )?shards:|\bLoading safetensors using [\w ]+:", "weights"),
        (r"\bCapturing CUDA graph", "graphs"),
        (r"\bDeepGEMM warmup\b", "compile"),
    ),
    phases=(
        (r"Starting to load model ", "weights"),
        (r"Dynamo bytecode transform time|Compiling a graph for|for vLLM's torch\.compile", "compile"),
        (r"Capturing cudagraphs for decoding|Capturing the model for CUDA", "graphs"),
        (r"Graph capturing finished", "warmup"),
    ),
)
