"""What a soak of a sound engine says, of one that leaks, and of one behind a proxy that fails now and then."""

from __future__ import annotations

import json
import subprocess
from typing import Any

Seen = dict[str, dict[str, Any]]
FAILS, FAILS_OFTEN = 100, 25
"""Each so-many-th request fails; the more often, the sooner a soak is sure of it."""


def observations(done: subprocess.CompletedProcess[str]) -> tuple[int, Seen]:
    assert done.returncode in (0, 1), done.stderr
    seen = json.loads(done.stdout)["observations"]
    return done.returncode, {item["check"]: item for item in seen if item["rung"] == "soak"}


def is_sound(code: int, seen: Seen, *, restarted: bool, least_requests: int) -> None:
    assert {item["check"]: item["reason"] for item in seen.values() if item["verdict"] == "failed"} == {}
    assert code == 0
    passed = {item["check"] for item in seen.values() if item["verdict"] == "passed"}
    assert passed >= {"errors", "answers", "engine memory"}  # latency is skipped where others took over
    assert ("host memory" in passed) == (seen["errors"]["measured"]["steady_seconds"] > 90), "a minute does not tell"
    assert ("restart" in passed) == restarted
    assert seen["errors"]["measured"]["requests"] >= least_requests


def could_tell(seen: Seen, bytes_per_second: float) -> bool:
    """Whether so much growth would have been noticed, by what the soak itself says. On a busy machine half a minute may
    be too short."""
    return bool(seen["engine memory"]["measured"]["bytes_per_hour_found"] < 3600 * bytes_per_second)


def has_leaked(code: int, seen: Seen, bytes_per_second: float) -> None:
    assert code == 1
    assert seen["errors"]["verdict"] == "passed", "the engine itself goes on answering"
    memory = seen["engine memory"]
    assert memory["verdict"] == "failed", memory["reason"]
    assert "used up in" in memory["reason"]
    found, planted = memory["measured"]["bytes_per_hour"], 3600 * bytes_per_second
    half = found - memory["measured"]["bytes_per_hour_low"]
    assert abs(found - planted) < 1.5 * half, "it is what was planted, as sure as was said"
    assert half < planted / 2, "and that was sure enough to mean something"


def has_failed(seen: Seen, every: int) -> None:
    errors = seen["errors"]
    assert errors["verdict"] == "failed", errors["reason"]
    assert "HTTP 500" in errors["reason"]
    counted = errors["measured"]
    assert counted["failed"] in (counted["requests"] // every, counted["requests"] // every + 1)
    assert seen["answers"]["verdict"] == "passed"
    assert {seen[check]["verdict"] for check in ("engine memory", "host memory", "restart")} == {"skipped"}
