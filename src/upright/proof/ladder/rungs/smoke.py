"""Language, arithmetic, code, JSON: is anybody at home?"""

from __future__ import annotations

from upright.facts.records.evidence import Observation
from upright.proof.ladder.estimating import THOUGHT_TOKENS, ProbeCost
from upright.proof.ladder.observing import Judgement, SentQuestion, Slot, observe
from upright.proof.ladder.prompts import Mode, Question
from upright.proof.ladder.rules import judge as rule
from upright.proof.ladder.rung import LadderRung, Probe, ProofContext
from upright.serving.endpoint.client import Answer

NAME = "smoke"
_STRUCTURED = ("json", "json_schema")


def _probes(stand: ProofContext) -> list[Probe]:
    return [
        _probe(question, number, mode, sample)
        for number, question in enumerate(stand.prompts.smoke, start=1)
        for mode in question.modes
        for sample in range(1, 1 + (stand.options.samples if question.check in _STRUCTURED else 1))
    ]


def _probe(question: Question, number: int, mode: Mode, sample: int) -> Probe:
    name = f"{question.check} {number} {mode}" + (f" sample {sample}" if sample > 1 else "")
    thoughts = THOUGHT_TOKENS if mode == "thinking" else 0
    cost = ProbeCost(prompt_tokens=64, answer_tokens=question.about_tokens + thoughts)
    return Probe(question.check, name, lambda stand: _ask(stand, question, name, mode, sample), cost)


def _ask(stand: ProofContext, question: Question, name: str, mode: Mode, sample: int) -> Observation:
    options: dict[str, object] = {}
    if question.enforce_schema:
        form = {"name": "answer", "schema": question.expect, "strict": True}
        options["response_format"] = {"type": "json_schema", "json_schema": form}
    if sample > 1:
        options["seed"] = sample
    asked = SentQuestion(
        [{"role": "user", "content": question.ask}],
        max_tokens=question.max_tokens,
        mode=mode,
        options=options,
        optional=question.enforce_schema,
    )
    slot = Slot(NAME, question.check, name)
    seen = observe(stand, slot, asked, lambda answer: _judged(answer, question, mode))
    if question.enforce_schema and _is_ignored(seen, stand):
        reason = f"json_schema is ignored: HTTP 200, and {seen.reason}"
        return seen.model_copy(update={"verdict": "unsupported", "reason": reason})
    return seen


def _is_ignored(seen: Observation, stand: ProofContext) -> bool:
    """An answer came, and is not of that form. A server that kept to it before has not ignored it: it is broken."""
    kept = any(
        observation.check == seen.check and observation.verdict == "passed" for observation in stand.observations
    )
    return seen.verdict in ("failed", "wrong") and seen.guard is None and seen.response is not None and not kept


def _judged(answer: Answer, question: Question, mode: Mode) -> Judgement:
    if wrong := rule(question.rule, answer.text, question.expect):
        return "wrong", wrong
    if mode == "thinking" and not answer.reasoning.strip():
        return "unsupported", "no reasoning came: the template or the parser has no thinking"
    return "passed", f"{question.rule}: {_short(question.expect)}"


def _short(expect: object) -> str:
    text = str(expect)
    return text if len(text) <= 60 else f"{text[:57]}..."


RUNG = LadderRung(NAME, "language, arithmetic, code that runs, JSON", _probes)
