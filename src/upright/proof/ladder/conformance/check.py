"""What a check is: a question as a client puts it -> a verdict, in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from upright.engines import ENGINES
from upright.proof.ladder.observing import Judgement
from upright.proof.ladder.rung import ProofContext
from upright.serving.endpoint.client import Endpoint

Check = Callable[[ProofContext], Judgement]
TOKENS = 48
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
QUESTION = [{"role": "user", "content": "What is the weather in Paris?"}]


def judgement_of(wrong: list[str], right: str) -> Judgement:
    return ("failed", "; ".join(dict.fromkeys(wrong))) if wrong else ("passed", right)


def judge_stream(
    endpoint: Endpoint, path: str, body: dict[str, Any], judge: Callable[[list[str]], list[str]]
) -> Judgement:
    lines = endpoint.raw_lines(path, body)
    return judgement_of(judge(lines), f"{count_of(lines)} events in order")


def oversized_text(stand: ProofContext) -> str | Judgement:
    """Four words for each token that there is room for; or why it is not sent."""
    context, engine = stand.target.context_tokens, ENGINES.get(stand.target.engine or "")
    if context is None:
        return "unsupported", "the context is not known"
    if engine is not None and not engine.http.limits_context:
        return "unsupported", f"not sent: {engine.title} has no limit, and would read it to its end"
    return "one two three four " * context


def count_of(lines: list[str]) -> int:
    return sum(line.startswith("data:") for line in lines)


def wrong_fields(found: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """Fields that are not as the protocol has them."""
    return [f"{name} is {found.get(name)!r}" for name, expected in wanted.items() if found.get(name) != expected]


def missing_counts(usage: Any, names: tuple[str, ...]) -> list[str]:
    usage = usage if isinstance(usage, dict) else {}
    return [f"usage has no {name}" for name in names if type(usage.get(name)) is not int]
