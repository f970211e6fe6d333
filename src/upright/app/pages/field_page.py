"""FieldTest -> a page: the schedule before, and what Upright was wrong about after."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator

from upright.base.terminal.safe_output import style
from upright.base.units import format_duration
from upright.facts.records.first_hour import FieldTest
from upright.flows.first_hour.claims import claims

_STEP = 26
"""Where a step's name begins."""


def schedule_page(test: FieldTest, width: int) -> str:
    return "\n".join(_schedule(test, width))


def _schedule(test: FieldTest, width: int) -> Iterator[str]:
    total = sum(step.estimated_seconds for step in test.steps)
    yield from _told(f"{test.box}: {_gpus(test)}", width, 0)
    yield from _told(f"about {format_duration(total)} of {_limit(test)}", width, 0)
    yield ""
    yield style(f"{'after':>11}  {'takes':>11}  step", dim=True)
    after, previous = 0.0, ""
    for step in test.steps:
        about = f"{step.why}" + (f"; {step.known}" if step.known else "")
        yield f"{_clock(after):>11}  {format_duration(step.estimated_seconds):>11}  {step.name}"
        if step.action in ("probe", "kernels", "start") and about != previous:
            yield from _told(about, width, _STEP)
            previous = about
        after += step.estimated_seconds
    if test.left_out:
        yield ""
        yield "Left out:"
        for sentence in test.left_out:
            yield from _told(sentence, width, 2)
    yield ""
    yield from _told(f"Judged at the end: {'; '.join(row.claim for row in claims())}.", width, 0)


def _clock(seconds: float) -> str:
    return format_duration(seconds) if seconds else "0 s"


def _gpus(test: FieldTest) -> str:
    counted = Counter(test.gpus)
    return ", ".join(f"{count}x {name}" for name, count in counted.items()) or "no GPU"


def _limit(test: FieldTest) -> str:
    limit = format_duration(test.limit_seconds)
    if test.spend_limit is None or test.price_per_hour is None:
        return limit
    return (
        f"{limit} ({test.spend_limit:g} at {test.price_per_hour:g} an hour, and {format_duration(test.budget_seconds)})"
    )


def _told(text: str, width: int, indent: int) -> Iterator[str]:
    margin = " " * indent
    yield from textwrap.wrap(
        text, max(40, width), initial_indent=margin, subsequent_indent=margin + ("" if indent > 2 else "  "),
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def errors_page(lines: Iterable[str], width: int) -> str:
    """Plain lines, folded to a terminal."""
    return "\n".join(
        folded
        for sentence in lines
        for folded in (_told(sentence.strip(), width, len(sentence) - len(sentence.lstrip())) if sentence else ("",))
    )
