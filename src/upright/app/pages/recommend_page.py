"""Recommendation -> a page: a table of models, one sentence why the first, and what is assumed.

Each model has two lines: what one decides by, then how it is run.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator

from upright.base.terminal.safe_output import style
from upright.base.units import format_duration, format_size
from upright.engines import engine_named
from upright.facts.records.plan import Goal, Rate
from upright.facts.records.recommendation import ModelOffer, Recommendation
from upright.planning.choosing.rule import floor_seconds, floor_tokens_per_second
from upright.planning.speed.turns import FIRST_PROMPT_TOKENS, expected_seconds

_NAME, _CONTEXT, _DECODE, _PREFILL, _QUALITY = 24, 10, 15, 9, 10
_CERTAINTY = {"measured": "fitted"}
"""Constants fitted on such boxes are no measurement of this model there."""
_QUANT = 22
_BENCHMARKS = {"SWE-bench Verified": "SWE", "Terminal-Bench 2.1": "TB"}


def recommend_page(recommendation: Recommendation, width: int, *, why: bool = False) -> str:
    return "\n".join(_lines(recommendation, width, why=why))


def _lines(recommendation: Recommendation, width: int, *, why: bool) -> Iterator[str]:
    goal = recommendation.goal
    users = "1 user" if goal.users == 1 else f"{goal.users} users"
    context = f", {goal.context_tokens:,} tokens of context" if goal.context_tokens else ""
    speed = f", at least {goal.minimum_tokens_per_second:g} tok/s" if goal.minimum_tokens_per_second else ""
    yield from _wrapped(f"{recommendation.box}: {goal.use}, {users}{context}{speed}", width)
    yield ""
    if recommendation.offers:
        yield from _three(recommendation, width)
        yield ""
        yield _heading()
    for number, offer in enumerate(recommendation.offers, 1):
        yield from _offer(number, offer)
    if recommendation.offers:
        yield ""
    yield from _wrapped(f"{recommendation.why}.", width)
    if recommendation.offers:
        yield from _wrapped(_run(recommendation), width)
        if any(offer.quality is not None and offer.quality.by == "maker" for offer in recommendation.offers):
            yield from _wrapped("* its maker's own figure, which counts less; --why says how much.", width)
        yield from _wrapped(_floors(goal) or "", width)
        yield from _notes(recommendation, width)
    if why:
        yield from _why(recommendation, width)
    else:
        yield from _wrapped("--why says where scores come from and why not the others, --all shows all.", width)


def _floors(goal: Goal) -> str | None:
    """What the use calls slow, and what moves it."""
    rate, seconds = floor_tokens_per_second(goal), floor_seconds(goal)
    floors = [f"below {rate:g} tok/s (--min-speed)"] if rate else []
    if math.isfinite(seconds):
        floors.append(f"above {seconds:g} s until a prompt of {FIRST_PROMPT_TOKENS:,} tokens is read (--first-answer)")
    return f"Slow for {goal.use} is {' or '.join(floors)}." if floors else None


def _three(recommendation: Recommendation, width: int) -> Iterator[str]:
    """The answer, before the list of the best."""
    three = {"best": recommendation.offers[0], "fast": recommendation.fast, "small": recommendation.small}
    for word, offer in three.items():
        if offer is None:
            continue
        speed = "speed not known" if offer.decode is None else f"{_rate(offer.decode)} tok/s"
        title = engine_named(offer.engine).title
        parts = (_name(offer), f"{_quality(offer)}", speed, _download(offer), title)
        yield from _wrapped(" · ".join(parts), width, f"{word:<7}")


def _heading() -> str:
    names = (
        f"  {'model':<{_NAME}}{'context':<{_CONTEXT}}{'decode tok/s':<{_DECODE}}{'prefill':<{_PREFILL}}"
        f"{'quality':<{_QUALITY}}certainty"
    )
    return style(names, fg="bright_black")


def _offer(number: int, offer: ModelOffer) -> Iterator[str]:
    decode = "not known" if offer.decode is None else _rate(offer.decode)
    if offer.decode is not None and len(decode) >= _DECODE:  # in whole numbers, else it runs into the next column
        decode = _rate(offer.decode, whole=True)
    prefill = "?" if offer.prompt is None else _number(offer.prompt)
    row = (
        f"{number:<2}{_cut(_name(offer), _NAME - 1):<{_NAME}}{_context(offer):<{_CONTEXT}}{decode:<{_DECODE}}"
        f"{prefill:<{_PREFILL}}{_quality(offer):<{_QUALITY}}{_CERTAINTY.get(offer.certainty, offer.certainty)}"
    )
    yield style(row.rstrip(), bold=True) if number == 1 else row.rstrip()
    where = "experts offloaded to CPU" if offer.offloaded_layers else None
    title = engine_named(offer.engine).title
    turn = f"turn {format_duration(expected_seconds(offer.turn.warm))}" if offer.turn and offer.turn.warm else None
    parts = (f"{_cut(offer.quant, _QUANT)} ({offer.bits:.1f} bits)", title, _download(offer), turn, where)
    yield "  " + " · ".join(part for part in parts if part)


def _name(offer: ModelOffer) -> str:
    return offer.artifact.rpartition("/")[2].partition(":")[0].removesuffix("-GGUF")


def _download(offer: ModelOffer) -> str:
    """`595 GB`, or `about 258 GB` where nobody published the size."""
    about = "about " if offer.download_basis == "derived" else ""
    return about + format_size(offer.download_bytes)


def _context(offer: ModelOffer) -> str:
    """`64k x 2`: tokens for each, and how many can fill that at once."""
    count = offer.context_tokens
    tokens_text = f"{count // 1024}k" if count % 1024 == 0 else f"{count / 1000:.0f}k"
    return f"{tokens_text} x {offer.users_at_context}"


def _quality(offer: ModelOffer) -> str:
    if offer.quality is None:
        return "none"
    mark = "*" if offer.quality.by == "maker" else ""
    return f"{_BENCHMARKS.get(offer.quality.benchmark, '')} {offer.quality.score:.1f}{mark}".strip()


def _run(recommendation: Recommendation) -> str:
    run = recommendation.run
    if run is None:
        return "No run on such a box is published in the catalogue: prove and bench your own."
    which = "Published on such a box" if run.same_model else "Published on such a box, of another model"
    return f"{which}: {run.words}; measurements/{run.id}."


def _notes(recommendation: Recommendation, width: int) -> Iterator[str]:
    offers = recommendation.offers
    notes = [*(offer.assumed for offer in offers), *(offer.unrecorded for offer in offers)]
    for note in dict.fromkeys(filter(None, notes)):
        yield from _wrapped(note, width, "note ", "yellow")


def _why(recommendation: Recommendation, width: int) -> Iterator[str]:
    yield ""
    yield "Quality:"
    for number, offer in enumerate(recommendation.offers, 1):
        source = f" [{offer.quality.source}]" if offer.quality else ""
        yield from _wrapped(f"{offer.quality_why}{source}", width, f"{number:>2} ")
    yield from _wrapped(
        f"Ranked by SWE-bench Verified. Makers' own figures are a median {recommendation.makers_gap:g} points above "
        "those of one harness for all models, and count so much less. Who beats a model in Terminal-Bench 2.1 "
        "counts at least as much as that one. Without a score, size and bits decide.",
        width,
    )
    yield ""
    planned, artifacts = recommendation.artifacts_planned, recommendation.artifacts
    done = f"{planned} of {artifacts} artifacts of {recommendation.models} models were planned in full"
    yield from _wrapped(f"Why not ({done}, bounds and the order decided the others):", width)
    for refusal in recommendation.refusals:
        yield from _wrapped(refusal.why, width, f"{refusal.model}: ")


def _rate(rate: Rate, *, whole: bool = False) -> str:
    low, high = (f"{end:.0f}" if whole else _plain(end) for end in (rate.low, rate.high))
    best = "" if rate.best is None else f"{rate.best:.0f} " if whole else f"{_plain(rate.best)} "
    return f"{best}({low}-{high})"


def _number(rate: Rate) -> str:
    return _plain(rate.best if rate.best is not None else rate.low)


def _plain(rate: float) -> str:
    if rate >= 10_000:
        return f"{rate / 1000:.0f}k"
    return f"{rate:,.0f}" if rate >= 20 else f"{rate:.1f}"


def _cut(name: str, length: int) -> str:
    return name if len(name) <= length else f"{name[: length - 1]}…"


def _wrapped(words: str, width: int, first: str = "", colour: str | None = None) -> Iterator[str]:
    indent = " " * min(len(first), 6)
    lines = textwrap.wrap(words, max(24, width - 1), initial_indent=" " * len(first), subsequent_indent=indent,
                          break_on_hyphens=False)  # fmt: skip
    for index, line in enumerate(lines):
        lead = style(first, fg=colour) if colour else first
        yield lead + line[len(first) :] if index == 0 else line
