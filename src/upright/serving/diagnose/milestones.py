"""What engines print when they start, stand and die: the milestones that a log is read by."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Literal

from upright.engines import ENGINES
from upright.engines.facets.log import READY, Mark
from upright.serving.diagnose.lines import message_of, strip_log_prefix

_EVERYONE = (
    *(Mark("ready", pattern) for pattern in READY),
    Mark("answered", r"\"POST /\S* HTTP/1\.1\" 200"),
    Mark("shutdown", r"^INFO: +Shutting down$"),
    Mark("death", r"Segmentation fault|Segfault encountered|core dumped|Fatal Python error: "),
    Mark("death", r"terminate called after throwing"),
)
"""What servers print whatever engine they belong to."""
_SERVES = r"\"(?:GET|POST) /\S* HTTP/1\.1\" 200"
EXCEPTION = re.compile(
    r"^(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Exit|OutOfResources|Timeout|Iteration)\b(?:: |:?$)"
)
_COMPLAINT = (
    r"terminate called after throwing|(?:^|: )error: |Segmentation fault|Fatal Python error: |core dumped"
    r"|Segfault encountered|^(?:\[[\w.-]+\] )?CRITICAL[: ]"
)
_ECHO = (
    r"[Ss]ee (?:root cause|the stack trace|error|logs?)\b.*above"
    r"|^SystemExit|^KeyboardInterrupt|asyncio\.exceptions\.CancelledError"
)


@cache
def marks() -> tuple[Mark, ...]:
    """Of all engines, each once."""
    answered = (Mark("answered", engine.log.answers) for engine in ENGINES.values() if engine.log.answers)
    own = (mark for engine in ENGINES.values() for mark in engine.log.marks)
    return tuple(dict.fromkeys((*_EVERYONE, *own, *answered)))


@cache
def signs() -> tuple[str, ...]:
    """What makes a line worth a look that no row knows."""
    plain = (
        r"(?:Error|Exception|OutOfResources)\b",
        r"^(?:\[[\w.-]+\] )?CRITICAL[: ]",
        r"(?:^|: )error: ",
        r"^[\d.]+ E ",
        r"\berror loading model: ",
    )
    return (*(mark.pattern for mark in marks()), *plain)


def engine_of(head: str) -> str | None:
    """Whose log it is, by its first lines, or whose files, flags and variables they name; None if none or several
    claim it."""
    lines = [strip_log_prefix(line) for line in head.splitlines()]
    return _claimed(_shapes(), lines) or _claimed(_hints(), lines)


def _claimed(patterns: Mapping[str, re.Pattern[str]], lines: Sequence[str]) -> str | None:
    claims = {name: sum(1 for line in lines if pattern.search(line)) for name, pattern in patterns.items()}
    for name, engine in ENGINES.items():
        if engine.log.fork_of and claims.get(name):
            claims[name] += claims[engine.log.fork_of]
    best = max(claims, key=lambda name: claims[name])
    return best if claims[best] and sum(count == claims[best] for count in claims.values()) == 1 else None


def is_engine_line(text: str) -> bool:
    """Whether any engine prints such a line, though it may not tell which of them."""
    line = strip_log_prefix(text)
    return bool(_any_of("family_shape").search(line)) or any(shape.search(line) for shape in _shapes().values())


def shows_serving(text: str) -> bool:
    """Whether only an engine that stands prints such a line: of a log whose beginning was cut off."""
    return bool(_any_of("serves", _SERVES).search(text))


def complains(text: str) -> bool:
    """Whether it looks like a cause: an exception or a complaint, and not the echo of one."""
    return bool(EXCEPTION.search(message_of(text)) or says_failed(text)) and not _any_of("echo", _ECHO).search(text)


def says_failed(text: str) -> bool:
    """Whether it is worded as a complaint, whatever level a program that passes it on gave it."""
    return _any_of("complaint", _COMPLAINT).search(text) is not None


@cache
def _shapes() -> dict[str, re.Pattern[str]]:
    """Engine -> lines that only its log has."""
    return {name: re.compile(engine.log.shape) for name, engine in ENGINES.items() if engine.log.shape}


@cache
def _hints() -> dict[str, re.Pattern[str]]:
    """Engine -> what only it names so."""
    return {name: re.compile(engine.log.hints) for name, engine in ENGINES.items() if engine.log.hints}


@cache
def _any_of(kind: Literal["family_shape", "serves", "complaint", "echo"], *everyones: str) -> re.Pattern[str]:
    """One pattern of what all engines print of that kind, and everyone's."""
    patterns = dict.fromkeys(pattern for engine in ENGINES.values() if (pattern := getattr(engine.log, kind)))
    return re.compile("|".join((*everyones, *patterns)))
