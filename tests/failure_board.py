"""Recorded failures with a known outcome -> a verdict on each, and the scoreboard of docs/diagnosing.md."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from upright.facts.records.diagnosis import Diagnosis, Finding
from upright.serving.diagnose import diagnose

RECORDING = Path(__file__).parent / "recordings/failures/open.yaml"
THREADS = Path(__file__).parent / "recordings/failures/threads.yaml"
VERDICTS = ("right", "second", "wrong", "symptom", "not named")
QUIET = ("information", "slow")


class Judged(NamedTuple):
    """A failure whose outcome is known, and what `diagnose` makes of it."""

    failure: dict[str, Any]
    verdict: str
    code: str | None


@cache
def recorded() -> dict[str, list[dict[str, Any]]]:
    content: dict[str, list[dict[str, Any]]] = yaml.safe_load(RECORDING.read_text())
    return content


@cache
def threads() -> tuple[dict[str, Any], ...]:
    """Failures of further public threads, in the order in which they were collected."""
    content: dict[str, list[dict[str, Any]]] = yaml.safe_load(THREADS.read_text())
    return tuple(content["failures"])


def diagnosed(excerpt: str) -> Diagnosis:
    return diagnose(io.BytesIO((excerpt.rstrip("\n") + "\n").encode()), subject="excerpt")


@cache
def judgements() -> tuple[Judged, ...]:
    return tuple(judged(failure) for failure in recorded()["failures"])


@cache
def thread_judgements() -> tuple[Judged, ...]:
    return tuple(judged(failure) for failure in threads())


def judged(failure: dict[str, Any]) -> Judged:
    """right: the first cause says what the thread's outcome says; second: another finding does; symptom: nothing that
    was found says more than that it fell; wrong: another cause is named with certainty. Other possibilities alone are
    no name."""
    diagnosis = diagnosed(failure["excerpt"])
    telling = [finding for finding in diagnosis.findings if finding.severity not in ("information", "symptom")]
    certain = diagnosis.certainty != "possibly"
    fitting = [finding for finding in telling if re.search(failure["says"], text_of(finding), re.IGNORECASE)]
    first = next((finding for finding in diagnosis.findings if finding.code == diagnosis.code), None)
    if first is not None and first in fitting:
        return Judged(failure, "right", first.code)
    if fitting:
        return Judged(failure, "second", fitting[0].code)
    if telling and certain:
        return Judged(failure, "wrong", (first or telling[0]).code)
    return Judged(failure, "symptom" if diagnosis.findings else "not named", None)


def false_alarms(excerpts: Iterable[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """Names of healthy excerpts that are called a failure, with the rows that do."""
    alarms = []
    for name, excerpt in excerpts:
        diagnosis = diagnosed(excerpt)
        loud = [finding.code for finding in diagnosis.findings if finding.severity not in QUIET]
        if diagnosis.failed or loud:
            alarms.append((name, loud))
    return alarms


def board() -> str:
    """The tables, as Markdown."""
    alarms = false_alarms((row["id"], row["excerpt"]) for row in recorded()["negatives"])
    lines = [
        f"{len(judgements())} failures from public threads whose outcome is known, and {len(recorded()['negatives'])} "
        f"healthy excerpts that look alarming (`tests/recordings/failures/`): {len(alarms)} false alarms.",
        "",
        *_tables(judgements()),
        *_missed(judgements()),
        "",
        f"{len(threads())} lines from {len({row['source'] for row in threads()})} further public threads, from which "
        "rows were written:",
        "",
        *_tables(thread_judgements()),
        *_missed(thread_judgements()),
    ]
    return "\n".join(lines)


def _tables(judgements: Sequence[Judged]) -> list[str]:
    return [
        *_table("", judgements, lambda judgement: "all"),
        *_table("by engine", judgements, lambda judgement: judgement.failure["engine"]),
        *_table("by stage", judgements, lambda judgement: judgement.failure["stage"]),
        *_table("by GPU architecture", judgements, lambda judgement: silicon(judgement.failure["silicon"])),
    ]


def _missed(judgements: Sequence[Judged]) -> list[str]:
    missed = [judgement for judgement in judgements if judgement.verdict != "right"]
    head = ["Not named rightly:", ""] if missed else ["All of them are named rightly."]
    return head + [
        f"- {miss.failure['id']} ({miss.failure['source']}): {miss.verdict}{f', {miss.code}' if miss.code else ''}"
        for miss in missed
    ]


def silicon(told: str) -> str:
    """A family of GPUs, as the reports name it in many ways."""
    families = {
        "SM12x": r"SM ?12|RTX (?:PRO|50)|Spark|GB10", "SM10x": r"B200|B300|GB200", "SM90": r"H100|H200|H20|SM90",
        "older NVIDIA": r"3090|4090|T4|A100|L40|SM8|RTX", "AMD": r"gfx|MI3|AMD|Strix", "Apple": r"Apple|M[1-4]",
    }  # fmt: skip
    return next((name for name, pattern in families.items() if re.search(pattern, told)), "any or not said")


def text_of(finding: Finding) -> str:
    remedies = [remedy.model_dump_json() for remedy in finding.remedies]
    suspects = [suspect.cause for suspect in finding.causes]
    return "\n".join([finding.title, finding.when or "", finding.cause, *suspects, *remedies])


def _table(title: str, judgements: Sequence[Judged], group: Callable[[Judged], str]) -> list[str]:
    counts: dict[str, Counter[str]] = {}
    for judgement in judgements:
        counts.setdefault(group(judgement), Counter())[judgement.verdict] += 1
    rows = [
        f"| {name} | {counts[name].total()} | " + " | ".join(str(counts[name][verdict]) for verdict in VERDICTS) + " |"
        for name in sorted(counts)
    ]
    return [f"| {title} | failures | {' | '.join(VERDICTS)} |", "|---|" + "---:|" * (len(VERDICTS) + 1), *rows, ""]
