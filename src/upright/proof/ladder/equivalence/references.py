"""A file or a deployment's name -> the Reference that it holds; a climb's observations -> a Reference to keep."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from upright.base.errors import RecordError, UsageError
from upright.facts import store
from upright.facts.records.deployment import Deployment
from upright.facts.records.evidence import Evidence, Observation
from upright.facts.records.loading import load
from upright.facts.records.reference import Continuation, DecodedStep, Reference
from upright.proof.ladder.equivalence.fixed_prompts import fixed_prompts
from upright.proof.ladder.prompts import PromptSet
from upright.serving.endpoint.client import Answer

RUNG_NAME = "equivalence"
END = "<end of the answer>"
CONTINUATION = "continuation"
"""Where an observation's response keeps it."""


class NoDistributionError(Exception):
    """The server does not tell how likely its tokens were."""


def reference_for(named: str, prompts: PromptSet) -> Reference:
    """What a person named: a file that was saved, or a deployment whose continuations are in its evidence."""
    wanted = fixed_prompts(prompts)
    reference = load(Path(named), Reference) if named.endswith((".json", ".yaml", ".yml")) else _of_deployment(named)
    if reference.prompts != wanted.reference:
        raise UsageError(
            f"{named} was made with other prompts: {reference.prompts[:40]}…, not {wanted.reference[:40]}…",
            hint=f"make it anew on the reference deployment: upright prove NAME --only {RUNG_NAME}",
        )
    return reference


def save_reference(evidence: Evidence, path: Path) -> Reference:
    """The continuations of a climb as a file; compact, since it is mostly numbers."""
    subject = next((seen.subject for seen in evidence.of(RUNG_NAME) if seen.subject), None) or "unknown"
    reference = _made(evidence.of(RUNG_NAME), subject, evidence.deployment, evidence.engine, evidence.engine_version)
    if reference is None:
        raise UsageError("there is nothing to save: no prompt was continued", hint="see what the climb said of them")
    reference = reference.model_copy(update={"made_from": (evidence.reference,)})
    text = json.dumps(reference.to_dict(), ensure_ascii=False, separators=(",", ":"))
    store.write_atomically(path, f"{text}\n".encode())
    return reference


def continuation_of(prompt: str, answer: Answer) -> Continuation:
    """The decoded tokens, the chosen one of each step first."""
    steps: list[DecodedStep] = []
    for entry in answer.logprobs or ():
        others = entry.get("top_logprobs")
        if not isinstance(others, list) or not others:
            raise NoDistributionError("the server sends no top_logprobs")
        step = [_token(entry), *(_token(other) for other in others if isinstance(other, dict))]
        if any(not math.isfinite(log_probability) for _, log_probability in step):
            raise ValueError(f"token {len(steps) + 1} has a log probability that is no number")
        steps.append(tuple(step))
    if not steps:
        raise NoDistributionError("the server sends no logprobs")
    try:
        return Continuation(prompt=prompt, text=answer.text, steps=tuple(_with_one_end(steps, answer)))
    except ValidationError as error:
        raise ValueError(f"its log probabilities are not sane: {error.errors()[0]['msg']}") from None


def _with_one_end(steps: list[DecodedStep], answer: Answer) -> list[DecodedStep]:
    """Engines call the token that ends an answer by its own name (vLLM) or by none (llama.cpp): here it has one."""
    name = steps[-1][0][0]
    if answer.finish_reason != "stop" or (name and answer.text.endswith(name)):
        return steps
    return [tuple((END if token == name else token, chance) for token, chance in step) for step in steps]


def continuations(observations: Iterable[Observation]) -> dict[str, Continuation]:
    """By prompt, the last of each."""
    kept: dict[str, Continuation] = {}
    for seen in observations:
        if seen.rung == RUNG_NAME and isinstance(content := (seen.response or {}).get(CONTINUATION), dict):
            try:
                kept[str(seen.probe)] = Continuation.model_validate(content)
            except ValidationError as error:
                raise RecordError(
                    f"the evidence of {seen.probe} holds no continuation: {error.errors()[0]['msg']}"
                ) from None
    return kept


def _of_deployment(name: str) -> Reference:
    directory = store.find(name)
    observations = [seen for seen in directory.observations() if seen.rung == RUNG_NAME]
    subject = next((seen.subject for seen in reversed(observations) if CONTINUATION in (seen.response or {})), None)
    deployment = directory.read(Deployment)
    ours = [seen for seen in observations if seen.subject == subject]
    reference = _made(ours, str(subject), deployment.name, deployment.engine, deployment.engine_version)
    if reference is None:
        raise UsageError(
            f"{name} has continued no prompts yet", hint=f"upright prove {name} --only {RUNG_NAME} makes them"
        )
    return reference


def _made(
    observations: Iterable[Observation], subject: str, model: str, engine: str | None, version: str | None
) -> Reference | None:
    observations = list(observations)
    kept = continuations(observations)
    asked = [seen for seen in observations if CONTINUATION in (seen.response or {})]
    if not asked:
        return None
    about = asked[-1].request
    return Reference(
        model=model,
        engine=engine,
        engine_version=version,
        subject=subject,
        prompts=str(about.get("fixed_prompts")),
        top=int(about.get("top_logprobs") or 0),
        continuations=tuple(kept.values()),
    )


def _token(entry: dict[str, Any]) -> tuple[str, float]:
    """By its bytes, which engines agree on; a log probability that is no number is told apart by the caller."""
    raw, log_probability = entry.get("bytes"), entry.get("logprob")
    is_bytes = isinstance(raw, list) and raw and all(isinstance(byte, int) and 0 <= byte < 256 for byte in raw)
    text = bytes(raw or ()).decode("utf-8", "backslashreplace") if is_bytes else str(entry.get("token"))
    is_number = isinstance(log_probability, int | float)
    return text[:400], round(float(log_probability), 5) if is_number and log_probability is not None else math.nan
