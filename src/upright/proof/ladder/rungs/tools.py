"""Tool calls: chosen, forced, forbidden, parallel, over several turns, nested, in other scripts, streamed and not."""

from __future__ import annotations

import re
from typing import Any

from upright.facts.records.evidence import Observation
from upright.proof.ladder.detectable_rates import ruled_out_words
from upright.proof.ladder.estimating import THOUGHT_TOKENS, ProbeCost
from upright.proof.ladder.observing import Judge, SentQuestion, Slot, fault_or_weakness, observation_of, observe_answer
from upright.proof.ladder.prompts import Dialogue, ExpectedCall, Mode, PromptSet
from upright.proof.ladder.rung import LadderRung, Probe, ProofContext
from upright.proof.ladder.schemas import misfit
from upright.proof.ladder.tool_calls import arguments_of, judge_calls
from upright.serving.endpoint.client import Answer

NAME = "tools"
_KIMI_ID = re.compile(r"functions\.[\w-]+:\d+")


def _probes(stand: ProofContext) -> list[Probe]:
    probes = [
        _probe(dialogue, number, mode, stream, sample)
        for number, dialogue in enumerate(stand.prompts.dialogues, start=1)
        for mode in dialogue.modes
        for stream in (False, True)
        for sample in range(1, stand.options.samples + 1)
    ]
    if probes:
        probes += [Probe("ids", "ids", _ids), Probe("figures", "figures", _figures)]
    return probes


def _probe(dialogue: Dialogue, number: int, mode: Mode, stream: bool, sample: int) -> Probe:
    how = "streamed" if stream else "whole"
    name = f"{dialogue.check} {number} {mode} {how}" + (f" sample {sample}" if sample > 1 else "")
    thoughts = THOUGHT_TOKENS if mode == "thinking" else 0
    turns = _turns(dialogue)
    cost = ProbeCost(prompt_tokens=300 * turns, answer_tokens=(dialogue.about_tokens + thoughts) * turns)
    return Probe(dialogue.check, name, lambda stand: _converse(stand, dialogue, name, mode, stream, sample), cost)


def _turns(dialogue: Dialogue) -> int:
    return 1 + bool(dialogue.results) + (_turns(dialogue.then) if dialogue.then else 0)


def _converse(stand: ProofContext, dialogue: Dialogue, name: str, mode: Mode, stream: bool, sample: int) -> Observation:
    """The whole conversation; the last answer is the observation, or the first one that is wrong."""
    slot, counts = (
        Slot(NAME, dialogue.check, name),
        {"calls": 0.0, "calls_fit": 0.0, "should_call": 0.0, "did_call": 0.0},
    )
    messages: list[dict[str, Any]] = []
    step: Dialogue | None = dialogue
    while step is not None:
        messages.append({"role": "user", "content": step.ask})
        expected: tuple[ExpectedCall, ...] = step.calls
        while True:
            asked = SentQuestion(
                list(messages),
                max_tokens=step.max_tokens,
                mode=mode,
                stream=stream,
                tools=stand.prompts.declared(step.tools),
                choice=step.choice if step.choice != "auto" and not _is_result(messages) else None,
                options={"seed": sample} if sample > 1 else None,
                optional=step.choice != "auto",
            )
            seen, answer = observe_answer(stand, slot, asked, _judge(step, expected, stand.prompts))
            if answer is not None:
                _tally(counts, answer, stand.prompts, bool(expected))
            if answer is None or seen.verdict != "passed" or not (expected and step.results):
                break
            messages.append({"role": "assistant", "content": answer.text, "tool_calls": answer.tool_calls})
            messages += _results(answer, step.results)
            expected = ()
        step = step.then if seen.verdict == "passed" else None
        if step is not None and answer is not None:
            messages.append({"role": "assistant", "content": answer.text})
    return seen.model_copy(update={"measured": {**seen.measured, **counts}})


def _judge(dialogue: Dialogue, expected: tuple[ExpectedCall, ...], prompts: PromptSet) -> Judge:
    return lambda answer: judge_calls(answer, dialogue, expected, prompts)


def _results(answer: Answer, results: tuple[str, ...]) -> list[dict[str, Any]]:
    return [
        {"role": "tool", "tool_call_id": call.get("id"), "content": content}
        for call, content in zip(answer.tool_calls, results, strict=False)
    ]


def _is_result(messages: list[dict[str, Any]]) -> bool:
    return bool(messages[-1]["role"] == "tool")


def _tally(counts: dict[str, float], answer: Answer, prompts: PromptSet, should: bool) -> None:
    counts["should_call"] += should
    counts["did_call"] += bool(answer.tool_calls) and should
    counts["false_call"] = counts.get("false_call", 0.0) + (bool(answer.tool_calls) and not should)
    for call in answer.tool_calls:
        counts["calls"] += 1
        function = call.get("function") or {}
        declared = prompts.tools.get(str(function.get("name")))
        try:
            fits = declared is not None and misfit(arguments_of(call), declared["parameters"]) is None
        except (KeyError, TypeError, ValueError):
            fits = False
        counts["calls_fit"] += fits


def _ids(stand: ProofContext) -> Observation:
    """Kimi's template quotes the ids back to the model, and it expects `functions.NAME:INDEX`."""
    slot, ids = Slot(NAME, "ids", "ids"), []
    for seen in stand.observations:
        if seen.rung == NAME and seen.response is not None:
            ids += [call.get("id") for call in Answer({}, seen.response, 0).tool_calls]
    if not ids:
        return observation_of(stand, slot, "skipped", "no call was made")
    missing = [call_id for call_id in ids if not call_id]
    if missing:
        return observation_of(stand, slot, "failed", f"{len(missing)} of {len(ids)} calls have no id")
    own = [call_id for call_id in ids if _KIMI_ID.fullmatch(str(call_id))]
    if len(own) == len(ids):
        return observation_of(stand, slot, "passed", f"{len(ids)} ids are functions.NAME:INDEX")
    if "kimi" in stand.endpoint.model.lower():
        odd = next(call_id for call_id in ids if not _KIMI_ID.fullmatch(str(call_id)))
        return observation_of(
            stand, slot, "failed", f"the id {odd} is not functions.NAME:INDEX, as Kimi's template expects"
        )
    return observation_of(stand, slot, "passed", f"all {len(ids)} calls have an id")


def _figures(stand: ProofContext) -> Observation:
    """Schema accuracy of the calls that came, and F1 of calling exactly when a call was due."""
    sums: dict[str, float] = {}
    for seen in stand.observations:
        if seen.rung == NAME:
            for name, figure in seen.measured.items():
                sums[name] = sums.get(name, 0.0) + figure
    calls, fit = sums.get("calls", 0.0), sums.get("calls_fit", 0.0)
    hits, due, false = sums.get("did_call", 0.0), sums.get("should_call", 0.0), sums.get("false_call", 0.0)
    slot = Slot(NAME, "figures", "figures")
    if not due + calls:
        return observation_of(stand, slot, "skipped", "no question was asked that is due a call")
    f1 = 2 * hits / (due + hits + false)
    measured = {"schema_accuracy": fit / calls if calls else 0.0, "trigger_f1": round(f1, 4), "calls": calls}
    reason = f"schema accuracy {fit:.0f} of {calls:.0f}, trigger F1 {f1:.2f}"
    if calls and fit == calls:
        reason += f"; {ruled_out_words(int(calls))}"
    verdict = fault_or_weakness(stand, "passed" if calls and fit == calls else "wrong")
    return observation_of(stand, slot, verdict, reason, measured=measured)


RUNG = LadderRung(NAME, "tool calls that fit their schemas, called when due", _probes)
