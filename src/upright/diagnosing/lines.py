"""A raw line -> its text, and the process that printed it.

Eight ranks write into one file; containers, journals and terminals each put something of their own before the line.
"""

from __future__ import annotations

import re

_COLOURS = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
_ENVELOPE = re.compile(
    r"^(?:[\w.-]+ +\| ?"  # docker compose: `vllm-1  | `
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S+ [\w@.-]+\[\d+\]: "  # journalctl
    r"|\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-][\d:]+) (?:stdout|stderr) [FP] "  # kubelet
    r"|\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d) (?=\S))"  # docker logs -t
)
_RANKS = (
    re.compile(r"^\((?P<name>\w+) pid=(?P<pid>\d+)\) ?"),  # vLLM: (Worker_TP3 pid=123), (EngineCore pid=316)
    re.compile(r"^(?P<rank>\[rank\d+\]):? ?"),  # torch
    re.compile(
        r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?P<words>(?: [A-Z]{2,3}\d+)+)\] ?"
    ),  # SGLang: [2026-06-28 13:34:12 TP7]
    re.compile(r"^\S+:\d+:\d+ \[(?P<gpu>\d+)\] (?=.*NCCL)"),  # NCCL: host:pid:tid [gpu]
)
_LEVEL = re.compile(
    r"^(?:(?:ERROR|WARNING|INFO|CRITICAL|DEBUG) \d\d-\d\d [\d:.,]+ (?:\[[^\]]*\]|\S+\]) ?"  # vLLM
    r"|\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: [A-Z]{2,3}\d+)*\] ?"  # SGLang
    r"|\d+\.\d\d\.\d{3}\.\d{3} [A-Z] )"  # llama.cpp
)


def without_colours(raw: bytes) -> bytes:
    return _COLOURS.sub(b"", raw) if b"\x1b" in raw else raw


def readable(raw: bytes) -> list[str]:
    """The lines that a terminal would have shown one over the other: a progress bar goes back with \\r."""
    text = without_colours(raw).decode("utf-8", "replace")
    return [unwrapped(part) for part in text.split("\r") if part.strip()]


def unwrapped(text: str) -> str:
    """Without what a container, a journal or a kubelet puts before it."""
    return _ENVELOPE.sub("", text.rstrip(), count=1)


def rank_of(text: str) -> str | None:
    """`Worker_TP3`, `rank2`, `TP7`, `GPU 3`; the pid only where the name alone does not tell ranks apart."""
    for pattern in _RANKS:
        if found := pattern.match(text):
            parts = found.groupdict()
            if name := parts.get("name"):
                return name if name[-1].isdigit() else f"{name} {parts['pid']}"
            if rank := parts.get("rank"):
                return str(rank).strip("[]")
            return str(parts["words"]).strip() if parts.get("words") else f"GPU {parts['gpu']}"
    return None


def said(text: str) -> str:
    """What the process said, without its name, time and place in the source."""
    for pattern in (_RANKS[0], _LEVEL, _RANKS[1], _RANKS[3]):
        text = pattern.sub("", text, count=1)
    return text
