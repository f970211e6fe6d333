"""Records -> the same report as Markdown, for an issue, a wiki or a pull request."""

from __future__ import annotations

import re
from collections.abc import Sequence

from upright import __version__
from upright.base import units
from upright.base.untrusted_text import on_one_line
from upright.evidence.report import views
from upright.evidence.report.page import (
    Subject,
    compared_distances,
    differing,
    history,
    provenance,
    subject_comparisons,
    tiles,
    title,
    verdict,
)
from upright.evidence.report.reference_distance import HEADINGS
from upright.evidence.report.reproduction import reproduction_commands
from upright.evidence.report.speculation import candidate_rows
from upright.facts.catalog.explaining.rows import remedy_words
from upright.facts.records.benchmark import Benchmark
from upright.facts.records.diagnosis import Attempts
from upright.facts.records.speculation import Speculation
from upright.proof.benchmark.comparison import shape_words


def markdown(*subjects: Subject | Benchmark) -> str:
    lines = [f"# {_plain(title(subjects))}", ""]
    for contest in subject_comparisons(subjects):
        lines += _contest(contest)
    if changed := differing(subjects):
        names = [subject.deployment.name for subject in subjects if isinstance(subject, Subject)]
        lines += ["## What differs between the recipes", "", *_table(("setting", *names), changed), ""]
    if (compared := compared_distances(subjects)) is not None:
        lines += ["## Is it still the same model?", "", *_table(HEADINGS, compared.rows), ""]
        lines += [*(f"- {_plain(sentence)}" for sentence in compared.sentences), ""]
    for subject in subjects:
        if isinstance(subject, Benchmark):
            lines += _sweep(views.sweep(subject, draw=False))
        else:
            lines += [f"## {_plain(subject.deployment.name)}", ""] if len(subjects) > 1 else []
            lines += _subject(subject)
    return "\n".join([*lines, f"Written by upright {__version__}.", ""])


def _subject(subject: Subject) -> list[str]:
    deployment = subject.deployment
    engine = _plain(f"{deployment.engine} {deployment.engine_version or '(version unknown)'}")
    lines = [f"**{_plain(verdict(subject)[1])}.** {engine}", ""]
    bases = [(tile, f" ({tile.basis})" if tile.basis else "") for tile in tiles(subject)]
    lines += [f"- {_plain(f'{tile.value} {tile.words}{basis}')}" for tile, basis in bases]
    lines.append("")
    if subject.speculation is not None:
        lines += _guesses(subject.speculation)
    for record in subject.benchmarks:
        lines += _sweep(views.sweep(record, draw=False))
    if rungs := views.ladder(subject.proof):
        rows = [(rung.name, rung.verdict, f"{rung.passed} of {rung.total}{_missing(rung)}") for rung in rungs]
        lines += ["## Proof", "", *_table(("rung", "verdict", "checks passed"), rows), ""]
        for rung in (rung for rung in rungs if rung.name in ("clients", "soak", "equivalence")):
            sums = [answer for answer in rung.answers if not answer["asked"]] or rung.answers
            seen = [(answer["check"], answer["verdict"], answer["reason"]) for answer in sums]
            lines += [f"### {rung.name.capitalize()}", "", *_table(("check", "verdict", "what was seen"), seen), ""]
    if climbs := history(subject):
        lines += [
            "### Every climb",
            "",
            *_table(("when (UTC)", "rung", "recipe", "verdict", "checks passed"), climbs),
            "",
        ]
    if subject.attempts is not None and subject.attempts.attempts:
        lines += [
            "## Attempts",
            "",
            *_table(("", "when (UTC)", "changed", "result", "because", "took"), attempt_rows(subject.attempts)),
            "",
        ]
    ledger = [
        (line.device, line.term, units.format_memory(line.bytes), line.basis, line.why) for line in subject.plan.ledger
    ]
    lines += ["## Plan", "", *_table(("device", "term", "bytes", "basis", "why"), ledger), ""]
    lines += ["## Command", "", *_fenced([" ".join(subject.recipe.argv)]), ""]
    lines += ["## Do it again", "", *_fenced(reproduction_commands(subject)), ""]
    return [*lines, "## Where it all comes from", "", *_table(("record", "sha256"), provenance(subject)), ""]


def attempt_rows(way: Attempts) -> list[tuple[str, ...]]:
    """Each start: what was changed before it, what came of it, the line that ended it."""
    return [
        (
            str(attempt.number),
            attempt.at[:19].replace("T", " "),
            remedy_words(attempt.change) if attempt.change is not None else "",
            attempt.result,
            " ".join(filter(None, (attempt.code, attempt.said))),
            units.format_duration(attempt.seconds),
        )
        for attempt in way.attempts
    ]


def _missing(rung: views.RungView) -> str:
    return f", {rung.not_run} not run" if rung.not_run else ""


def _guesses(record: Speculation) -> list[str]:
    lines = ["## Does speculative decoding pay?", "", f"**{_plain(record.recommendation)}**", ""]
    for guess in candidate_rows(record, draw=False):
        lines += [f"### {_plain(guess.tried.name)}: {guess.tried.outcome}", "", f"{_plain(guess.tried.reason)}.", ""]
        lines += [*_table(guess.headings, guess.rows), ""] if guess.rows else []
        lines += [*(f"- {_plain(note)}" for note in guess.notes), ""]
    return lines


def _sweep(item: views.Sweep) -> list[str]:
    record = item.record
    heading = _plain(f"{record.title if record.source else 'Load'}: {record.workload}")
    lines = [f"## {heading}", "", f"{_plain(record.about)}.", ""]
    if record.source:
        lines += [f"> Published figures, not measured by this tool: {_plain(record.source)}", ""]
    if record.finding:
        lines += [f"**{_plain(record.finding)}.**", ""]
    rows = [tuple(f"*{cell}*" if line.marked and cell else cell for cell in line.cells) for line in item.lines]
    lines += [*_table(item.headings, rows), ""]
    if item.marks:
        lines += ["Not what they claim to be, and in no mean:", "", *(f"- {_plain(mark)}" for mark in item.marks), ""]
    return [*lines, _plain(f"{item.generator[0].upper()}{item.generator[1:]}."), ""]


def _contest(contest: views.BenchComparison) -> list[str]:
    first, *more = map(_plain, contest.sentences)
    heading = f"## Which is better: {_plain(contest.workload)}"
    lines = [heading, "", f"**{first}**", "", *(f"- {sentence}" for sentence in more), ""]
    rows = []
    for difference in contest.differences:
        factor, unit = (1000, "ms") if difference.metric.unit == "s" else (1, difference.metric.unit)
        unsure = "no difference" if difference.ratio.alike else "cannot tell"
        sure = unsure if difference.better is None else f"{contest.names[difference.better]} is better"
        rows.append((
            shape_words(difference.shape), difference.metric.words, f"{factor * difference.a.value:,.1f} {unit}",
            f"{factor * difference.b.value:,.1f} {unit}", f"{difference.percent:+.1f} %", difference.interval, sure,
        ))  # fmt: skip
    headings = ("where", "what", contest.names["a"], contest.names["b"], "difference", "95 % interval", "verdict")
    return [*lines, *(_table(headings, rows) if rows else []), ""]


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [
        "| " + " | ".join(map(_plain, headings)) + " |",
        "|" + "---|" * len(headings),
        *("| " + " | ".join(_plain(cell) for cell in row) + " |" for row in rows),
    ]


def _fenced(commands: Sequence[str]) -> list[str]:
    """Commands to copy: shown, one a line, between fences that none of them ends."""
    shown = [on_one_line(command, 20_000) for command in commands]
    longest = max((len(run) for command in shown for run in re.findall("`+", command)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}bash", *shown, fence]


def _plain(text: str) -> str:
    """Text of others starts no line, table, tag, link or picture of its own."""
    shown = on_one_line(text, 2000).replace("&", "&amp;").replace("<", "&lt;")
    return shown.replace("|", "\\|").replace("](", "]\\(").replace("`", "\\`")
