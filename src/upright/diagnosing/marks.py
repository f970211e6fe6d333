"""What engines print when they start, stand and die: the milestones that a log is read by."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from upright.catalog.rows.engine import Engine
from upright.diagnosing.lines import said, unwrapped


class Mark(NamedTuple):
    """A line that every run of an engine prints when that happens."""

    means: Literal["start", "ready", "shutdown", "death"]
    pattern: str


MARKS = (
    Mark("start", r"█  version \S"),  # vLLM's banner, since 0.18
    Mark("start", r"server_args=ServerArgs\("),  # SGLang
    Mark("start", r"llama_server: initializing"),  # llama.cpp b11669
    Mark("start", r"\bmain\] build info \|"),  # ik_llama.cpp, and llama.cpp of 2024
    Mark("ready", r"Application startup complete"),  # vLLM, SGLang: uvicorn's words
    Mark("ready", r"server fired up and ready to roll"),
    Mark("ready", r"listening on http://|HTTP server listening"),
    # Guard: a vLLM that is asked to stop ends with a traceback of EngineDeadError (0.32.0, core_client.py).
    Mark("shutdown", r"received signal=SIGTERM|shutdown triggered|^INFO: +Shutting down$|SIGTERM received"),
    Mark("death", r"Segmentation fault|Segfault encountered|core dumped|Fatal Python error: "),
    Mark("death", r"terminate called after throwing|GGML_ASSERT\(|GGML_ABORT|exiting due to "),
    Mark("death", r"Engine core initialization failed|EngineDeadError|Received sigquit from a child"),
    Mark("death", r": failed to load model\b|unable to load model\b"),  # llama.cpp, of all years
)
SIGNS = (
    *(mark.pattern for mark in MARKS),
    r"(?:Error|Exception|OutOfResources)\b",
    r"(?:^|: )error: ",
    r"^[\d.]+ E ",
    r"\berror loading model: ",
)
"""What makes a line worth a look that no row knows."""
_ENGINES: dict[Engine, re.Pattern[str]] = {
    "vllm": re.compile(
        r"^(?:INFO|WARNING|ERROR|CRITICAL|DEBUG) \d\d-\d\d \d\d:\d\d:\d\d |[/\\]vllm[/\\]\S+\.py\b|\bvLLM is using "
        r"|\((?:APIServer|EngineCore|Worker|VllmWorker)\w* [^)]*pid=\d+\)|^vllm\b.*: error: |\bvllm\.[a-z]\w+\."
        r"|\bvLLM API server version |\bInitializing an? (?:V1 )?LLM engine "
    ),
    "sglang": re.compile(
        r"[/\\]sglang[/\\]\S+\.py\b|\bsglang\.[a-z]\w+\.|\bServerArgs\("
        r"|^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:(?: [A-Z]{2,3}\d+)+\] |\] INFO: )"
    ),
    "llama.cpp": re.compile(
        r"^\d+\.\d\d\.\d{3}\.\d{3} [A-Z] |llama_server: |common_params_print_info|^llama_model_load_from_file_impl: "
        r"|^build: \d+ \([0-9a-f]{7,}\) with "
    ),
    "ik_llama.cpp": re.compile(r"/ik_llama\.cpp/|^INFO \[ +\w+\] .*tid=\"|^llm_load_tensors:|\bmla_attn\s+="),
}
"""Shapes of lines that only a log has; a text that merely speaks of an engine is not its log."""
_OF_SEVERAL = re.compile(
    r"^(?:llama_model_loader|llama_model_load|llama_load_model_from_file|llm_load_\w+|print_info): "
    r"|\bLoading safetensors checkpoint shards: "
)
_SERVES = re.compile(
    r"throughput: *[\d.]+ tokens/s|\] (?:Decode|Prefill) batch[.,]|\"(?:GET|POST) /\S* HTTP/1\.1\" 200|\bslots?_idle\b"
    r"|\b(?:slot|srv) +(?:print_timing|update_slots|launch_slot_|release|log_server_r): |: all slots are idle"
)
EXCEPTION = re.compile(
    r"^(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Exit|OutOfResources|Timeout|Iteration)\b(?:: |:?$)"
)
COMPLAINT = re.compile(
    r"^\d+\.\d\d\.\d{3}\.\d{3} E |GGML_ASSERT\(|GGML_ABORT|terminate called after throwing|(?:^|: )error: "
    r"|Segmentation fault|Fatal Python error: |core dumped|Segfault encountered|\berror loading model: "
)
ECHO = re.compile(
    r"[Ss]ee (?:root cause|the stack trace|error|logs?)\b.*above|EngineDeadError|initialization failed|exiting due to "
    r"|: (?:failed|unable) to load model\b|^(?:\S+ )?E (?:srv|cmn) +\S+: error loading model|get_response_or_error"
    r"|Received sigquit from a child|WorkerProc hit an exception"
    r"|^SystemExit|^KeyboardInterrupt|asyncio\.exceptions\.CancelledError|Worker proc \S+ died unexpectedly"
)
"""Lines that only say that something above went wrong."""


def engine_of(head: str) -> Engine | None:
    """Whose log it is, by its first lines; None if none or several claim it."""
    lines = [unwrapped(line) for line in head.splitlines()]
    claims = {name: sum(1 for line in lines if pattern.search(line)) for name, pattern in _ENGINES.items()}
    best = max(claims, key=lambda name: claims[name])
    return best if claims[best] and sum(count == claims[best] for count in claims.values()) == 1 else None


def is_an_engines(text: str) -> bool:
    """Whether any engine prints such a line, though it may not tell which of them."""
    line = unwrapped(text)
    return bool(_OF_SEVERAL.search(line)) or any(pattern.search(line) for pattern in _ENGINES.values())


def serves(text: str) -> bool:
    """Whether only an engine that stands prints such a line: of a log whose beginning was cut off."""
    return bool(_SERVES.search(text))


def complains(text: str) -> bool:
    """Whether it looks like a cause: an exception or a complaint, and not the echo of one."""
    return bool(EXCEPTION.search(said(text)) or COMPLAINT.search(text)) and not ECHO.search(text)
