"""A small real piece of work through tool calls; its files are judged by tests that the model never saw."""

from __future__ import annotations

from typing import Any

from upright.base.bounds.bounded_json import parse_json
from upright.facts.records.evidence import Observation
from upright.proof.ladder.estimating import ProbeCost
from upright.proof.ladder.observing import (
    Judgement,
    SentQuestion,
    Slot,
    fault_or_weakness,
    judge_isolated,
    observation_of,
    observe_answer,
)
from upright.proof.ladder.prompts import Task
from upright.proof.ladder.rung import LadderRung, Probe, ProofContext
from upright.proof.ladder.sandbox import run_assertions
from upright.proof.ladder.schemas import misfit
from upright.serving.endpoint.client import Answer

NAME = "task"
_TEXT = {"type": "string"}
_PATH = {"type": "object", "properties": {"path": _TEXT}, "required": ["path"]}
_WRITE = {"type": "object", "properties": {"path": _TEXT, "content": _TEXT}, "required": ["path", "content"]}
TOOLS: dict[str, dict[str, Any]] = {
    "list_files": {"description": "List the files of the folder.", "parameters": {"type": "object", "properties": {}}},
    "read_file": {"description": "Read a file.", "parameters": _PATH},
    "write_file": {"description": "Write a whole file.", "parameters": _WRITE},
}
"""What the model may do in the folder."""


def _probes(stand: ProofContext) -> list[Probe]:
    task = stand.prompts.task
    if task is None:
        slot, why = Slot(NAME, "files", "none"), "the prompt set has no task"
        return [Probe("files", "none", lambda stand: observation_of(stand, slot, "skipped", why))]
    cost = ProbeCost(prompt_tokens=2_500, answer_tokens=900)
    return [Probe("files", "files", lambda stand: _work(stand, task), cost)]


def _work(stand: ProofContext, task: Task) -> Observation:
    """Answer by answer until it calls no more tools; then the tests."""
    slot, files = Slot(NAME, "files", "files"), dict(task.files)
    messages: list[dict[str, Any]] = [{"role": "user", "content": task.ask}]
    declared = [{"type": "function", "function": {"name": name, **TOOLS[name]}} for name in task.tools]
    for turn in range(1, task.most_turns + 1):
        asked = SentQuestion(list(messages), max_tokens=task.max_tokens, tools=declared)
        seen, answer = observe_answer(stand, slot, asked, lambda answer: ("passed", "answered"))
        if answer is None or seen.verdict != "passed":
            return seen
        if not answer.tool_calls:
            verdict, reason = judge_isolated(lambda turn=turn: _tested(task, files, turn))  # type: ignore[misc]
            return seen.model_copy(update={"verdict": fault_or_weakness(stand, verdict), "reason": reason})
        messages.append({"role": "assistant", "content": answer.text, "tool_calls": answer.tool_calls})
        messages += _done(answer, files)
    verdict, reason = fault_or_weakness(stand, "wrong"), f"not finished after {task.most_turns} answers"
    return seen.model_copy(update={"verdict": verdict, "reason": reason})


def _done(answer: Answer, files: dict[str, str]) -> list[dict[str, Any]]:
    return [
        {"role": "tool", "tool_call_id": call.get("id"), "content": use(call["function"], files)}
        for call in answer.tool_calls
    ]


def use(function: dict[str, Any], files: dict[str, str]) -> str:
    """What one tool returns; a wrong call is told so, as a shell would."""
    name, raw = str(function.get("name")), function.get("arguments")
    if name not in TOOLS:
        return f"error: no tool named {name}"
    arguments = raw if isinstance(raw, dict) else parse_json(raw or "{}")
    if wrong := misfit(arguments, TOOLS[name]["parameters"]):
        return f"error: {wrong}"
    if name == "list_files":
        return "\n".join(sorted(files)) or "(empty)"
    path = str(arguments["path"]).removeprefix("./")
    if name == "read_file":
        return files.get(path, f"error: no file named {path}")
    if "\0" in path or {"", ".", ".."} & set(path.split("/")):
        return "error: outside the folder"
    files[path] = arguments["content"]
    return f"wrote {path}"


def _tested(task: Task, files: dict[str, str], turns: int) -> Judgement:
    for name, assertions in task.tests.items():
        outcome = run_assertions(files, assertions)
        if not outcome.ok:
            return "wrong", f"{name} fails: {outcome.reason}"
    return "passed", f"{', '.join(task.tests)} passes after {turns} answers (sandbox: {outcome.isolation})"


RUNG = LadderRung(NAME, "a small coding task through tool calls, its files tested", _probes)
