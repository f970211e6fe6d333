"""Small true-to-life records for the store's tests."""

from __future__ import annotations

from upright.facts.records.deployment import Deployment
from upright.facts.records.evidence import Observation


def deployment(name: str, *, created_at: str = "2026-11-15T00:00:00.000+00:00") -> Deployment:
    return Deployment(
        name=name,
        state="ready",
        engine="llama.cpp",
        engine_version="b7058",
        served_name=name,
        base_url="http://127.0.0.1:8080",
        context_tokens=4096,
        created_at=created_at,
        changed_at=created_at,
    )


def observation(number: int, **fields: object) -> Observation:
    content: dict[str, object] = {
        "rung": "smoke",
        "check": f"check-{number}",
        "verdict": "passed",
        "reason": "as expected",
        "at": "2026-11-15T00:00:00.000+00:00",
        "seconds": 0.25,
        "request": {"messages": [{"role": "user", "content": f"question {number}"}]},
        "response": {"choices": [{"message": {"content": f"answer {number}"}}]},
    }
    return Observation.model_validate({**content, **fields})
