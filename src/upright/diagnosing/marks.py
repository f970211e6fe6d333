"""What engines print when they start, stand and die: the milestones that a log is read by."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from upright.catalog.rows.engine import Engine
from upright.diagnosing.lines import said


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
)
SIGNS = (*(mark.pattern for mark in MARKS), r"(?:Error|Exception|OutOfResources)\b", r"(?:^|: )error: ", r"^[\d.]+ E ")
"""What makes a line worth a look that no row knows."""
_ENGINES: dict[Engine, re.Pattern[str]] = {
    "vllm": re.compile(r"\bvllm\b|\bvLLM\b|\((?:APIServer|EngineCore|Worker|VllmWorker)\w* pid=\d+\)"),
    "sglang": re.compile(r"\bsglang\b|\bServerArgs\(|^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d TP\d+\]"),
    "llama.cpp": re.compile(r"^\d+\.\d\d\.\d{3}\.\d{3} [A-Z] |llama_server: |common_params_print_info"),
    "ik_llama.cpp": re.compile(r"\bik_llama\.cpp\b|^INFO \[ +\w+\] .*tid=\"|^llm_load_tensors:|\bmla_attn\s+="),
}
EXCEPTION = re.compile(
    r"^(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Exit|OutOfResources|Timeout|Iteration)\b(?:: |:?$)"
)
COMPLAINT = re.compile(
    r"^\d+\.\d\d\.\d{3}\.\d{3} E |GGML_ASSERT\(|GGML_ABORT|terminate called after throwing|(?:^|: )error: "
    r"|Segmentation fault|Fatal Python error: |core dumped|Segfault encountered"
)
ECHO = re.compile(
    r"[Ss]ee (?:root cause|the stack trace|error|logs?)\b.*above|EngineDeadError|initialization failed|exiting due to "
    r"|^(?:\S+ )?E (?:srv|cmn) +\S+: (?:failed to load model|error loading model)|Received sigquit from a child"
    r"|llama_model_load_from_file_impl: failed to load model|WorkerProc hit an exception|get_response_or_error"
    r"|^SystemExit|^KeyboardInterrupt|asyncio\.exceptions\.CancelledError|Worker proc \S+ died unexpectedly"
)
"""Lines that only say that something above went wrong."""


def engine_of(head: str) -> Engine | None:
    """Whose log it is, by its first lines; None if none or several claim it."""
    lines = head.splitlines()
    claims = {name: sum(1 for line in lines if pattern.search(line)) for name, pattern in _ENGINES.items()}
    best = max(claims, key=lambda name: claims[name])
    return best if claims[best] and sum(count == claims[best] for count in claims.values()) == 1 else None


def complains(text: str) -> bool:
    """Whether it looks like a cause: an exception or a complaint, and not the echo of one."""
    return bool(EXCEPTION.search(said(text)) or COMPLAINT.search(text)) and not ECHO.search(text)
