"""Does it stand under its load for a while: errors, broken answers, slowing down, growing memory, a restart?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

from upright.base import units
from upright.facts.records.evidence import Observation, Verdict
from upright.proof.ladder.detectable_rates import CONFIDENCE
from upright.proof.ladder.estimating import ProbeCost
from upright.proof.ladder.observing import Slot, observation_of
from upright.proof.ladder.rung import LadderRung, Probe, ProofContext
from upright.proof.ladder.soak_load import Restarted, SoakedRequest, SoakResult, kinds, soak
from upright.proof.ladder.trends import (
    LEAST_POINTS,
    LEAST_SAMPLES,
    Trend,
    allowed_failures,
    blocks,
    exceeds,
    rate_found,
    slowdown,
    trend,
    worse,
)
from upright.serving.launch.footprint import Footprint

NAME = "soak"
_BUDGET = 0.001
"""Of all requests: so many may fail, and as many answers may be broken."""
_SLOWER = 1.2
"""An answer that takes so many times as long, for sure, is a slowdown."""
_NOTICED = 3.0
"""A check that would have passed over a slowdown of so many times has not looked."""
_BUSIER = 0.05
"""Of all processors: so much more work of others explains slower answers."""
_OTHERS, _IDLE = 0.2, 0.1
"""Of all processors: where others have so much and so little is left, they decide how long the engine waits for one,
and their share does not say how many they are."""
_STANDS_SECONDS = 7 * 86_400.0
"""A server should stand a week: memory that would be used up by then at the rate of growth is a leak."""
_SETTLING_SHARE = 0.2
"""Of the looks at memory after the first round: buffers are still touched for the first time."""
_CLOSED_SECONDS = 60.0
"""Linux remembers each closed connection for so long (TIME_WAIT): until then its memory grows with any load."""
Found = tuple[Verdict, str, dict[str, float], Any]


def _probes(stand: ProofContext) -> list[Probe]:
    deployment = stand.target.deployment
    again = (deployment.ready_seconds if deployment and stand.options.soak.restart else None) or 0.0
    costs = {"errors": ProbeCost(seconds=stand.options.soak.seconds), "restart": ProbeCost(seconds=again)}
    return [
        Probe(name, name, _judging(name, judge), costs.get(name, ProbeCost()), "load")
        for name, judge in _CHECKS.items()
    ]


def _judging(name: str, judge: Callable[[ProofContext, SoakResult], Found]) -> Callable[[ProofContext], Observation]:
    def judged(stand: ProofContext) -> Observation:
        soaked = _soaked(stand)
        verdict, reason, measured, response = judge(stand, soaked)
        seconds = soaked.steady_seconds if name == "errors" else 0.0
        rounded = {key: round(figure, 6) for key, figure in measured.items()}
        return observation_of(
            stand, Slot(NAME, name, name), verdict, reason, seconds=seconds, measured=rounded, response=response
        )

    return judged


def _soaked(stand: ProofContext) -> SoakResult:
    """One load for all checks."""
    if NAME not in stand.notes:
        stand.notes[NAME] = soak(stand)
    soaked = stand.notes[NAME]
    assert isinstance(soaked, SoakResult)
    return soaked


def _errors(stand: ProofContext, soaked: SoakResult) -> Found:
    asked, errors = soaked.asked, kinds(soaked.asked)
    count, failed = len(asked), sum(errors.values())
    shape = f"{_counted(soaked.users, 'user')} with {units.format_tokens(soaked.text_tokens)} tokens each"
    response = {"errors": errors, "samples": soaked.samples}
    measured = {
        "requests": count, "failed": failed, "users": soaked.users, "text_tokens": soaked.text_tokens,
        "steady_seconds": soaked.steady_seconds, "unfinished": soaked.unfinished,
    }  # fmt: skip
    what = ", ".join(f"{kind} ({number})" for kind, number in errors.items())
    if soaked.gone:
        return "failed", f"the server was gone after {count:,} requests: {what}", measured, response
    if _fell_silent(asked):
        return "failed", f"it fell silent after {_counted(count - failed, 'answer')}: {what}", measured, response
    if exceeds(failed, count, _BUDGET):
        reason = (
            f"{failed} of {count:,} requests failed, {allowed_failures(count, _BUDGET)} are within the budget: {what}"
        )
        return "failed", reason, measured, response
    least = rate_found(count, _BUDGET)
    seen = "" if least is None else f"; {100 * least:.2g} % would have been found ({100 * CONFIDENCE:.0f} % sure)"
    measured |= {} if least is None else {"found_share": least}
    cut = f", {soaked.unfinished} cut while they were answered" if soaked.unfinished else ""
    reason = f"{failed or 'none'} of {count:,} requests failed{f': {what}' if what else ''}{cut}, {shape}{seen}"
    return "passed", reason, measured, response


def _fell_silent(asked: list[SoakedRequest]) -> bool:
    """Whether the last of all was a request that got no byte: how few there were is no excuse then."""
    stalled = [seen.at - seen.seconds for seen in asked if seen.error == "stalled"]
    answered = [seen.at for seen in asked if seen.error is None]
    return bool(stalled) and max(stalled) >= max(answered, default=0.0)


def _answers(stand: ProofContext, soaked: SoakResult) -> Found:
    """Guards on every answer; and wrong ones must not get more on the way."""
    whole = [seen for seen in soaked.asked if seen.error is None]
    broken = [seen for seen in whole if seen.guard is not None]
    guards = Counter(str(seen.guard) for seen in broken)
    response = {"guards": dict(guards), "samples": soaked.samples}
    parts = _parts(soaked)
    (first, _), (early, _), (late, _) = parts
    measured: dict[str, float] = {
        "answers": len(whole), "broken": len(broken), "wrong_first": first, "wrong_before": early, "wrong_after": late,
    }  # fmt: skip
    if not whole:
        return "failed", "not one answer came", measured, response
    if exceeds(len(broken), len(whole), _BUDGET):
        what = ", ".join(f"{name} ({count})" for name, count in guards.items())
        return "failed", f"{len(broken)} of {len(whole):,} answers are broken: {what}", measured, response
    names = ("first round", "first half", "second")
    reason = "wrong: " + ", ".join(f"{w} of {n:,} in the {name}" for (w, n), name in zip(parts, names, strict=True))
    steady = (early + late, parts[1][1] + parts[2][1])
    if worse(*parts[0], *steady) or worse(*parts[1], *parts[2]):
        return "failed", reason, measured, response
    sane = f"{len(broken) or 'none'} of {len(whole):,} answers broken"
    return "passed", f"{sane}; {reason}", measured, response


def _parts(soaked: SoakResult) -> list[tuple[int, int]]:
    """(wrong, answers) of the first round, and of each half of the steady load."""
    warm, steady = ([seen for seen in part if seen.error is None] for part in (soaked.warm, soaked.steady))
    half = len(steady) // 2
    return [(sum(seen.wrong for seen in part), len(part)) for part in (warm, steady[:half], steady[half:])]


def _latency(stand: ProofContext, soaked: SoakResult) -> Found:
    whole = [seen for seen in soaked.steady if seen.error is None]
    ratio = slowdown((seen.at, seen.question, seen.seconds) for seen in whole)
    if ratio is None or ratio.low is None or ratio.high is None:
        uneven = len(whole) >= max(2 * LEAST_SAMPLES, LEAST_POINTS * soaked.questions)
        why = "came too unevenly" if uneven else "are too few"
        return "skipped", f"{len(whole):,} answers {why} to tell a start from an end", {}, None
    middle, response = median(seen.seconds for seen in whole), _series(whole)
    noticed = _SLOWER * ratio.factor / ratio.low if ratio.low > 0 else float("inf")
    if ratio.low <= _SLOWER and noticed > _NOTICED:
        reason = f"answers vary too much to tell a start from an end: {_NOTICED:.0f} times as long would not be sure"
        return "skipped", reason, {"median_seconds": middle}, response
    measured = {"factor": ratio.factor, "low": ratio.low, "high": ratio.high, "median_seconds": middle}
    measured["factor_noticed"] = noticed
    reason = f"the last third takes {ratio.factor:.2f} times as long as the first ({ratio.low:.2f} to {ratio.high:.2f})"
    if ratio.low <= _SLOWER:
        sensitivity = f"{noticed:.1f} times would have been found"
        return "passed", f"{reason}, median {units.format_duration(middle)}; {sensitivity}", measured, response
    if (others := _others(soaked.looks)) is None:
        return "failed", reason, measured, response
    measured |= {"others_more": others.more, "others_share": others.share}
    if others.more > _BUSIER:
        return "skipped", f"{reason}, but other programs took more of the processors", measured, response
    if others.share > _OTHERS and others.idle < _IDLE:
        shared = f"hardly a processor was idle, and other programs had {100 * others.share:.0f} % of them"
        return "skipped", f"{reason}, but {shared}", measured, response
    return "failed", reason, measured, response


def _engine_memory(stand: ProofContext, soaked: SoakResult) -> Found:
    return _memory(stand, soaked.looks, "the engine", lambda look: look.engine_bytes)


def _host_memory(stand: ProofContext, soaked: SoakResult) -> Found:
    since = soaked.looks[0][0] + _CLOSED_SECONDS if soaked.looks else 0.0
    looks = [(at, look) for at, look in soaked.looks if at >= since]
    verdict, reason, measured, response = _memory(stand, looks, "what no program owns", lambda look: look.kernel_bytes)
    if soaked.looks and verdict == "skipped":
        remembers = f"the kernel remembers closed connections for {units.format_duration(_CLOSED_SECONDS)}"
        reason = f"{remembers}; after that, {reason}"
    if soaked.looks:
        others = soaked.looks[-1][1].others_bytes - soaked.looks[0][1].others_bytes
        measured["others_growth_bytes"] = others
        reason += f"; other programs {'+' if others >= 0 else '-'}{units.format_memory(abs(others))}, which is theirs"
    return verdict, reason, measured, response


def _memory(
    stand: ProofContext, looks: list[tuple[float, Footprint]], what: str, held: Callable[[Footprint], int]
) -> Found:
    """Grows for sure, and so fast that the machine would not stand a week."""
    settled = looks[int(_SETTLING_SHARE * len(looks)) :]
    growth = trend([(at, float(held(look))) for at, look in settled])
    if growth is None:
        return "skipped", "not ours to look at" if stand.target.keeper is None else _unjudged(settled), {}, None
    left = settled[-1][1].available_bytes
    hourly, least = 3600 * growth.rate, 3600 * growth.half
    measured = {
        "start_bytes": growth.start, "end_bytes": growth.end, "bytes_per_hour": hourly,
        "bytes_per_hour_low": 3600 * growth.low, "bytes_per_hour_found": max(least, _weekly(left)),
        "available_bytes": left,
    }  # fmt: skip
    response = {"over_time": [[round(at, 1), round(held_bytes)] for at, held_bytes in growth.blocks]}
    moved = f"{what} from {units.format_memory(growth.start)} to {units.format_memory(growth.end)}"
    if growth.low > 0 and left / growth.low < _STANDS_SECONDS:
        return "failed", f"{moved}, {_lasting(growth, left)}", measured, response
    seen = f"growth over {units.format_memory(measured['bytes_per_hour_found'])} an hour would have been found"
    return "passed", f"{moved}; {seen}", measured, response


def _unjudged(looks: list[tuple[float, Footprint]]) -> str:
    """Why no trend can be told."""
    if len(looks) < LEAST_SAMPLES:
        return f"{len(looks)} looks are too few"
    gap = max(after - before for (before, _), (after, _) in pairwise(looks))
    return f"{len(looks)} looks came too unevenly, once {units.format_duration(gap)} apart: was the machine too busy?"


def _weekly(left_bytes: int) -> float:
    """An hour's growth that takes a week to use it up."""
    return 3600 * left_bytes / _STANDS_SECONDS


def _lasting(found: Trend, left_bytes: int) -> str:
    hourly = f"{units.format_memory(3600 * found.rate)} ± {units.format_memory(3600 * found.half)} an hour"
    return (
        f"{hourly}: {units.format_memory(left_bytes)} are used up in {units.format_duration(left_bytes / found.rate)}"
    )


def _restart(stand: ProofContext, soaked: SoakResult) -> Found:
    restarted = soaked.restarted
    if restarted is None:
        why = "not ours to restart" if stand.target.keeper is None else "not wanted"
        why = "the server was gone already" if soaked.gone else why
        return "skipped", why, {}, None
    whole, cut = _whole(restarted.during), kinds(restarted.during)
    measured = {
        "seconds": restarted.seconds, "answered_during": len(whole), "failed_during": sum(cut.values()),
        "asked_after": len(restarted.after),
    }  # fmt: skip
    response = {"during": cut, "after": kinds(restarted.after)}
    if restarted.reason is not None:
        return "failed", f"it did not come back: {restarted.reason}", measured, response
    wrong = _faults(restarted)
    if wrong:
        return "failed", wrong, measured, response
    summary = f"back after {units.format_duration(restarted.seconds)}: {sum(cut.values())} requests failed and"
    return (
        "passed",
        f"{summary} {len(whole)} were answered during it, {len(restarted.after)} afterwards",
        measured,
        response,
    )


def _faults(found: Restarted) -> str | None:
    """A request may fail while there is no engine; it may not hang, nor be answered with nonsense."""
    hung = sum(seen.error == "stalled" for seen in found.during)
    broken = sum(seen.guard is not None for seen in (*found.during, *found.after))
    failed = sum(kinds(found.after).values())
    if failed or not found.after:
        return f"{failed} of {len(found.after)} requests failed after it was back"
    if hung:
        return f"{hung} requests that it was answering were left without an end"
    return f"{broken} answers around the restart are broken" if broken else None


def _whole(seen: tuple[SoakedRequest, ...]) -> list[SoakedRequest]:
    return [request for request in seen if request.error is None]


def _series(whole: list[SoakedRequest]) -> dict[str, Any]:
    """Medians over time, for a picture."""
    cut = blocks([(seen.at, seen.seconds) for seen in whole])
    middles = ((median(at for at, _ in block), median(seconds for _, seconds in block)) for block in cut)
    return {"over_time": [[round(at, 1), round(seconds, 6)] for at, seconds in middles]}


class _Others(NamedTuple):
    """Programs beside the engine, as shares of all processors."""

    share: float
    """Theirs in the last third."""
    more: float
    """Than in the first third."""
    idle: float
    """What nobody used in the last third."""


def _others(looks: list[tuple[float, Footprint]]) -> _Others | None:
    """None if that is not known."""
    third = len(looks) // 3
    if third < 2:
        return None
    processors = max(looks[-1][1].processors, 1)
    shares, idle = list[float](), 0.0
    for (begun, first), (ended, last) in ((looks[0], looks[third]), (looks[-1 - third], looks[-1])):
        whole = processors * max(ended - begun, 1e-9)
        busy = last.busy_seconds - first.busy_seconds
        shares.append((busy - (last.engine_seconds - first.engine_seconds)) / whole)
        idle = 1 - busy / whole
    return _Others(shares[1], shares[1] - shares[0], idle)


def _counted(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


_CHECKS: dict[str, Callable[[ProofContext, SoakResult], Found]] = {
    "errors": _errors,
    "answers": _answers,
    "latency": _latency,
    "engine memory": _engine_memory,
    "host memory": _host_memory,
    "restart": _restart,
}

RUNG = LadderRung(NAME, "load for a while: errors, answers, latency, memory, and a restart under it", _probes)
