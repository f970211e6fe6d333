"""Evidence -> one screen: a line for each rung, and what was not passed."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from upright.base import units
from upright.base.untrusted_text import LONGEST_NAME, on_one_line
from upright.facts.records.evidence import Evidence, Observation
from upright.proof.ladder.estimating import ScheduledGroup, total_seconds

_COLOURS = {
    "passed": "green", "failed": "red", "wrong": "yellow", "unsupported": "yellow", "kept": "green",
    "stepped back": "yellow", "stands": "green", "stands, but the model is weak": "yellow", "does not stand": "red",
    "not known": "yellow",
}  # fmt: skip
_WEAK_OR_BROKEN = (
    "weak, or served wrongly? A comparison tells: prove --reference,",
    "with the same weights at full precision, or by a second engine",
)
_MOST_LINES = 8
_ORDER = ("failed", "wrong", "unsupported", "skipped")


def evidence_page(console: Console, evidence: Evidence) -> None:
    engine = " ".join(filter(None, (evidence.engine, evidence.engine_version))) or "an unknown engine"
    headline = (evidence.headline, _COLOURS[evidence.headline])
    reached = evidence.reached or "nothing"
    how_far = f"up to {reached}" if evidence.headline != "not known" else "the budget ended before it answered"
    console.print(Text.assemble(f"{evidence.deployment} ", headline, f", {how_far}, on {engine}"))
    _print_halves(console, evidence)
    table = Table(box=None, pad_edge=False, header_style="dim")
    rows = [_row(evidence, rung) for rung in evidence.rungs]
    left = console.width
    for heading, cells in zip(("rung", "verdict", "passed", "took"), zip(*rows, strict=True), strict=False):
        width = max(len(heading), *map(len, cells))
        table.add_column(heading, no_wrap=True, min_width=width)
        left -= width + 2
    # Guard: rich takes the room of a line that is too long from the first column, whatever its least width.
    table.add_column("what was seen", no_wrap=True, overflow="ellipsis", max_width=max(left, 16))
    for row in rows:
        table.add_row(*row)
    console.print(table)
    _print_others(console, evidence)
    _print_each(console, tuple(observation for observation in evidence.observations if _has_a_line(observation)))
    for step in evidence.steps:
        setting = " ".join(filter(None, (step.setting, step.after)))
        console.print(Text.assemble((step.outcome, _COLOURS.get(step.outcome, "")), f" {setting}: {step.reason}"))
    console.print(Text(f"ended: {evidence.ended}" if evidence.ended else f"asked for: {evidence.to_rung}", style="dim"))


def schedule_page(
    console: Console, schedule: list[ScheduledGroup], budget: float | None, rates: tuple[float, float] | None
) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("rung", "probes", "runs", "takes"):
        table.add_column(heading, no_wrap=True)
    table.add_column("why", overflow="fold")
    for choice in _merged(schedule):
        takes = "not known" if choice.seconds is None else units.format_duration(choice.seconds)
        runs = Text("yes", style="green") if choice.runs else Text("no", style="yellow")
        table.add_row(choice.group.rung, choice.group.name, runs, takes, "" if choice.runs else choice.reason)
    console.print(table)
    total = total_seconds(schedule)
    if total is not None:
        given = f" of {units.format_duration(budget)}" if budget is not None else ""
        console.print(f"about {units.format_duration(total)}{given} (derived from the rates that were given)")
    elif rates is None:
        console.print("how long it takes is not known before rates are measured, or given with --rates")


def schedule_rows(schedule: list[ScheduledGroup]) -> list[dict[str, Any]]:
    return [
        {
            "rung": choice.group.rung,
            "group": choice.group.name,
            "probes": choice.group.probes,
            "prompt_tokens": choice.group.cost.prompt_tokens,
            "answer_tokens": choice.group.cost.answer_tokens,
            "seconds": choice.seconds,
            "runs": choice.runs,
            "reason": choice.reason,
        }
        for choice in schedule
    ]


def _merged(schedule: list[ScheduledGroup]) -> list[ScheduledGroup]:
    """Groups of one question each as one line a rung, if they share their fate."""
    from dataclasses import replace

    lines: list[ScheduledGroup] = []
    for choice in schedule:
        last = lines[-1] if lines else None
        alone = choice.group.probes == 1 and choice.group.rung in ("arguments", "boot", "smoke", "tools")
        if last is not None and alone and (last.group.rung, last.runs) == (choice.group.rung, choice.runs):
            known = last.seconds is not None and choice.seconds is not None
            group = replace(last.group, cost=last.group.cost + choice.group.cost, probes=last.group.probes + 1)
            group = replace(group, name=f"{group.probes} questions")
            seconds = (last.seconds or 0) + (choice.seconds or 0) if known else None
            lines[-1] = replace(last, group=group, seconds=seconds)
        else:
            lines.append(choice)
    return lines


def _print_halves(console: Console, evidence: Evidence) -> None:
    """Does it serve, and is the model able? Said in full where the answer is not yes twice."""
    fault = evidence.fault
    if evidence.passed and evidence.able:
        return
    counts = Counter(observation.verdict for observation in evidence.observations)
    if fault is not None:
        why = f"{fault.rung} {fault.check}: {fault.reason}"
    else:
        why = f"{counts['passed']} checks passed, none failed" if evidence.passed else "nothing was checked"
    pairs = [("serves", "yes" if evidence.passed else "no", why)]
    if not evidence.able:
        questions = [seen for seen in evidence.observations if seen.verdict == "wrong"]
        rungs = ", ".join(dict.fromkeys(seen.rung for seen in questions))
        plural = "answers are" if len(questions) > 1 else "answer is"
        pairs.append(("able", "no", f"{len(questions)} {plural} sound and wrong ({rungs})"))
        if evidence.passed and evidence.rung_verdict("equivalence") != "passed":
            pairs += [("", "", line) for line in _WEAK_OR_BROKEN]
    for name, answer, words in pairs:
        line = Text.assemble((f"  {name:<6}  ", "dim"), f"{answer:<3}  ", on_one_line(words, LONGEST_NAME))
        console.print(line, no_wrap=True, overflow="ellipsis")


def _row(evidence: Evidence, rung: str) -> tuple[str, Text, str, str, str]:
    seen, verdict = evidence.of(rung), evidence.rung_verdict(rung)
    passed = sum(observation.verdict == "passed" for observation in seen)
    took = units.format_duration(sum(observation.seconds for observation in seen))
    count = f"{passed} of {len(seen)}" + (f", {missing} not run" if (missing := evidence.not_run(rung)) else "")
    return rung, Text(verdict, style=_COLOURS.get(verdict, "")), count, took, _telling(seen)


def _telling(seen: tuple[Observation, ...]) -> str:
    """The worst that was seen; if all is well, the last, which is the longest or the sum."""
    for verdict in _ORDER:
        matching = [observation for observation in seen if observation.verdict == verdict]
        if matching:
            return f"{matching[0].check}: {matching[0].reason}"
    return seen[-1].reason


def _has_a_line(item: Observation) -> bool:
    """How each client fares, what a soak found, and how far from its reference it is."""
    is_sum = item.rung == "equivalence" and item.check != "prompt"
    return item.rung == "soak" or item.check.startswith("for ") or is_sum


def _print_each(console: Console, seen: tuple[Observation, ...]) -> None:
    """Few checks, each with words of its own."""
    if not seen:
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for observation in seen:
        table.add_row(
            observation.check,
            Text(observation.verdict, style=_COLOURS.get(observation.verdict, "")),
            observation.reason,
        )
    console.print(table)


def _print_others(console: Console, evidence: Evidence) -> None:
    """What was not passed, the worst first; a check once, with its first reason."""
    told = [observation for observation in evidence.observations if not _has_a_line(observation)]
    groups = Counter((observation.verdict, observation.rung, observation.check) for observation in told)
    reasons = {
        (observation.verdict, observation.rung, observation.check): observation.reason for observation in reversed(told)
    }
    others = [key for verdict in _ORDER for key in groups if key[0] == verdict]
    for verdict, rung, check in others[:_MOST_LINES]:
        times, reason = groups[verdict, rung, check], reasons[verdict, rung, check]
        count = f" ({times} times)" if times > 1 else ""
        line = Text.assemble(f"  {rung} {check} ", (verdict, _COLOURS.get(verdict, "")), f"{count}: {reason}")
        console.print(line, soft_wrap=False, overflow="ellipsis", no_wrap=True)
    if len(others) > _MOST_LINES:
        console.print(f"  and {len(others) - _MOST_LINES} more: --json")
