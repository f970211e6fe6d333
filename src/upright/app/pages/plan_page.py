"""Plans -> a page: the verdict, the three numbers to decide by, memory by device, what objects and what would help.

Plain strings: planning is asked often, and a library for tables would cost as much as the plan.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from upright.base.terminal.safe_output import style, uncoloured
from upright.base.units import GIB, format_memory, format_tokens
from upright.engines import engine_named
from upright.facts.records.plan import Plan, Rate, Turn
from upright.planning.choosing.artifacts import ArtifactChoice
from upright.planning.choosing.engine_constraints import FORBIDDEN
from upright.planning.choosing.explanations import choice_words, expert_words
from upright.planning.choosing.placements import GOES_BY, Placement
from upright.planning.choosing.published_notes import NEAREST_PUBLISHED
from upright.planning.choosing.trades import OTHER_WAY, configuration_words
from upright.planning.placement.devices import RAM_NOT_SPECIFIED, RAM_UNSAID
from upright.planning.placement.engine_support import known_to_serve
from upright.planning.placement.host_tier import TOO_LARGE, TOO_SMALL
from upright.planning.speed.prefill_reach import SIBLINGS, from_siblings
from upright.planning.speed.turns import FIRST_PROMPT_TOKENS, seconds_words

_BAR = 40
_FIGURES = 23
_LABEL = 11
_ELSEWHERE = ("speed-unknown", NEAREST_PUBLISHED, OTHER_WAY)
"""Notes that have a place of their own on the page."""


class LedgerPart(NamedTuple):
    name: str
    terms: tuple[str, ...]
    mark: str
    colour: str


PARTS = (
    LedgerPart(
        "weights",
        (
            "weights",
            "replicated_weights",
            "absorbed_weights",
            "padded_weights",
            "scales",
            "unclassed_weights",
            "tables",
        ),
        "█",
        "blue",
    ),
    LedgerPart("experts", ("experts",), "▓", "bright_blue"),
    LedgerPart("engine", ("runtime", "graphs", "draft", "compute", "upload", "process"), "▒", "yellow"),
    LedgerPart("KV", ("kv_cache", "state", "host_cache"), "▚", "green"),
)


def plan_page(
    plans: Sequence[Plan],
    chosen: ArtifactChoice,
    width: int,
    instead: Sequence[Plan] | None = (),
    *,
    placed: Sequence[Placement] = (),
    own: Plan | None = None,
    why: bool = False,
    everything: bool = False,
    ram_unknown: bool = False,
) -> str:
    """`instead`: plans of other models, where nothing of this one fits; None if nobody looked.

    `placed`: its experts otherwise. `own`: of this one as a GGUF of another type. `ram_unknown`: with RAM it may fit.
    """
    lines = [*_lines(plans, chosen, width, ram_unknown, placed)]
    if own is not None:
        lines += _of_own_type(own, instead or (), plans[0], width)
    else:
        lines += _instead(plans[0], chosen, instead, width, ram_unknown)
    if why:
        lines += ["", *why_lines(plans[0], width)]
    if everything:
        lines += ["", *table_lines(plans, width)]
    return "\n".join(lines)


def verdict(plan: Plan, ram_unknown: bool) -> str:
    if plan.fits:
        return style("fits", fg="green", bold=True)
    if ram_unknown:
        return style("not known, it depends on system RAM", fg="yellow", bold=True)
    if any(objection.short_bytes for objection in plan.objections):
        return style("does not fit", fg="red", bold=True)
    return style("not known" if plan.not_understood else "not like this", fg="red", bold=True)


def _lines(
    plans: Sequence[Plan], chosen: ArtifactChoice, width: int, ram_unknown: bool, placed: Sequence[Placement]
) -> Iterator[str]:
    plan = plans[0]
    said = verdict(plan, ram_unknown)
    fits_a_line = len(f"{plan.model}: {uncoloured(said)}") <= width
    yield from (f"{plan.model}: {said}",) if fits_a_line else (f"{plan.model}:", f"  {said}")
    yield from textwrap.wrap(f"{plan.box} · {configuration(plan)}", max(20, width))
    yield ""
    of_this_box = all(objection.code != "too-few-gpus" for objection in plan.objections)
    if of_this_box:
        yield from _figures(plan, width)
    for sentence in (choice_words(plans, chosen), expert_words(plan.expert_places)):
        if sentence is not None:
            yield from _wrapped(sentence, width)
    yield from _placements(placed, width)
    for objection in plan.objections:
        yield from _wrapped(objection.message, width, "no   ", "red")
        if objection.remedy:
            yield from _wrapped(f"try {objection.remedy}", width, "     ")
    for note in (note for note in plan.notes if of_this_box and note.code not in _ELSEWHERE):
        yield from _wrapped(note.message + (f": {note.remedy}" if note.remedy else ""), width, "note ", "yellow")
    yield from _others(plan, width)
    yield from _nearest(plan, width)
    yield from _rungs(plan, width)


def _figures(plan: Plan, width: int) -> Iterator[str]:
    decided = _decided_by(plan)
    yield from _pairs(decided, width)
    if decided:
        yield ""
    for names, devices in device_groups(plan):
        yield from _device(plan, names, devices[0], _bar_width(width))
    yield from _legend(plan, width)
    yield from _pairs(_cache(plan), width)
    yield ""


def configuration(plan: Plan) -> str:
    """`vLLM 0.32.0 · TP8 · DCP8 · bf16 KV`."""
    ranks = plan.parallel
    sizes = (("TP", ranks.tensor), ("PP", ranks.pipeline), ("DP", ranks.data), ("DCP", ranks.decode_context))
    title = engine_named(plan.engine).title
    return " · ".join((
        f"{title} {plan.engine_version}" if plan.engine_version else title,
        *(f"{name}{count}" for name, count in sizes if count > 1),
        *(["EP"] if ranks.expert else []),
        f"{plan.kv.dtype} KV",
    ))  # fmt: skip


def device_groups(plan: Plan) -> list[tuple[str, list[str]]]:
    """Devices with the same ledger, together."""
    found: dict[tuple[object, ...], list[str]] = {}
    for budget in plan.budgets:
        terms = tuple((line.term, line.bytes) for line in plan.ledger if line.device == budget.device)
        found.setdefault((budget.capacity_bytes, terms), []).append(budget.device)
    return [(_names(devices), devices) for devices in found.values()]


def _names(devices: list[str]) -> str:
    if len(devices) == 1:
        return devices[0]
    return f"{devices[0]} to {devices[-1].removeprefix('gpu')}"


def _bar_width(width: int) -> int:
    """On a narrow page the bar gives way to its figures."""
    return max(8, min(_BAR, width - _LABEL - 2 - _FIGURES))


def _device(plan: Plan, names: str, device: str, length: int) -> Iterator[str]:
    budget = next(budget for budget in plan.budgets if budget.device == device)
    capacity = 0 if budget.why == RAM_UNSAID else budget.capacity_bytes
    used = plan.used_bytes(device)
    if not used and not capacity:
        return
    scale = length / max(capacity, used, 1)
    bar, drawn, total = "", 0, 0
    for part in PARTS:
        total += part_bytes(plan, device, part)
        end = round(total * scale)
        bar += style(part.mark * (end - drawn), fg=part.colour)
        drawn = end
    bar += "·" * (length - drawn)
    asked = any(objection.code == RAM_NOT_SPECIFIED and objection.device == device for objection in plan.objections)
    unsaid = asked or budget.why == RAM_UNSAID
    usage = format_memory(used) + (" needed" if unsaid else f" of {format_memory(capacity)}")
    short = asked or (used > capacity and not unsaid)
    yield f"  {names:<{_LABEL}}{bar} {style(usage, fg='red') if short else usage}"


def part_bytes(plan: Plan, device: str, part: LedgerPart) -> int:
    return sum(line.bytes for line in plan.ledger if line.device == device and line.term in part.terms)


def _legend(plan: Plan, width: int) -> Iterator[str]:
    """What the marks are, with the GiB of the first device."""
    device = plan.budgets[0].device if plan.budgets else "host"
    parts = [(part, part_bytes(plan, device, part)) for part in PARTS]
    where = f" GiB ({device})" if len(device_groups(plan)) > 1 else " GiB"
    plain = [f"{part.mark} {part.name} {count / GIB:.1f}" for part, count in parts if count]
    lead, half = " " * (_LABEL + 2), (len(plain) + 1) // 2
    narrow = len(lead + "  ".join(plain) + where) > width
    entries = [f"{style(part.mark, fg=part.colour)} {part.name} {count / GIB:.1f}" for part, count in parts if count]
    if narrow:
        yield lead + "  ".join(entries[:half])
        entries = entries[half:]
    yield lead + "  ".join(entries) + where


def _decided_by(plan: Plan) -> list[tuple[str, str]]:
    """Context by users, decode, prefill."""
    if not plan.kv.capacity_tokens or plan.not_understood:
        return []
    users = "1 user" if plan.users_at_context == 1 else f"{plan.users_at_context} users"
    if plan.context_tokens > plan.largest_context_tokens:  # room for what nobody may ask for is no promise
        users = "0 users"
    context = (
        f"{users} x {format_tokens(plan.context_tokens)} tokens; one user up to "
        f"{format_tokens(plan.largest_context_tokens)}"
    )
    published = [
        ("published", note.message.removeprefix("nearest published: "))
        for note in plan.notes
        if note.code == NEAREST_PUBLISHED
    ]
    return [("context", context), *speed_pairs(plan), *published]


def _cache(plan: Plan) -> list[tuple[str, str]]:
    kv = plan.kv
    copies = "" if kv.copies == 1 else f", replicated on {kv.copies} TP ranks"
    formula = kv.formula.removesuffix(f" = {kv.bytes_per_token:,} B" if kv.bytes_per_token is not None else "")
    pairs = [("KV cache", _capacity(plan)), ("", f"{kv.dtype}, {_token_bytes(plan)}/token{copies}: {formula}")]
    if kv.state_bytes_per_sequence:
        kept = f", {kv.states_per_sequence} kept" if kv.states_per_sequence > 1 else ""
        pairs.append(("", f"recurrent state {format_memory(kv.state_bytes_per_sequence)} per sequence{kept}"))
    return pairs


def _pairs(pairs: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    for name, fact in pairs:
        yield from _wrapped(fact, width, f"{name:<{_LABEL}}")


def _token_bytes(plan: Plan) -> str:
    kv = plan.kv
    if kv.bytes_per_token is not None:
        return f"{kv.bytes_per_token:,} B"
    most = f"{kv.high_bytes_per_token:,}" if kv.high_bytes_per_token is not None else "not known"
    return f"at least {kv.low_bytes_per_token or 0:,}, at most {most} B"


def _capacity(plan: Plan) -> str:
    kv = plan.kv
    if plan.not_understood:
        return (
            f"at least {format_tokens(kv.low_tokens)} tokens"
            if kv.high_bytes_per_token and kv.low_tokens
            else "not known"
        )
    if not kv.capacity_tokens:
        return "no memory left for it"
    if kv.high_tokens == kv.planned_tokens and any(place.device == "host" for place in plan.expert_places):
        return f"{format_tokens(kv.planned_tokens)} tokens, as planned: experts take the rest of the GPUs"
    longer = plan.largest_context_tokens > kv.low_tokens
    requests = f", in requests of {format_tokens(plan.context_tokens)}" if longer else ""
    return f"{format_tokens(kv.capacity_tokens)} tokens expected, at least {format_tokens(kv.low_tokens)}{requests}"


def _placements(placed: Sequence[Placement], width: int) -> Iterator[str]:
    """Layers of experts on the GPUs, and what they buy; what the use would choose is marked."""
    ubatches = sorted({ubatch for each in placed for ubatch in each.prefill})
    first = max((len(each.place) for each in placed), default=0)
    rows = [("--place", "decode", [f"{ubatch:,}" for ubatch in ubatches], "context", "")] if placed else []
    for each in placed:
        decode = _expected(each.plan.speed.decode) if each.plan.fits and each.plan.speed else "-"
        prefill = [_expected(each.prefill[ubatch]) if ubatch in each.prefill else "-" for ubatch in ubatches]
        best = f"  {GOES_BY[each.plan.goal.use]}" if each.best else ""
        rows.append((each.place, decode, prefill, format_tokens(each.context_tokens), best))
    for index, (place, decode, prefill, context, best) in enumerate(rows):
        title, by_ubatch = "" if index else "prefill -ub", " ".join(f"{rate:>6}" for rate in prefill)
        row = f"  {place:<{max(7, first)}} {decode:>6} {title:>12}{by_ubatch} {context:>9}"
        yield row + (best if len(row + best) <= width else " *" * bool(best))


def _expected(found: Rate | None) -> str:
    return "?" if found is None or found.best is None else _number(found.best)


def _nearest(plan: Plan, width: int) -> Iterator[str]:
    if plan.nearest:
        yield "  What would fit, each of them planned:"
    for alternative in plan.nearest:
        cache = (
            f"{format_tokens(alternative.context_tokens)} tokens of context, KV cache "
            f"{format_tokens(alternative.capacity_tokens)}"
        )
        yield from _wrapped(f"{alternative.change}: {cache}", width, "  - ")


def _others(plan: Plan, width: int) -> Iterator[str]:
    others = [note for note in plan.notes if note.code == OTHER_WAY]
    if others:
        yield "  Other ways, and what they buy:"
    for other in others:
        yield from _wrapped(f"{other.message}: {other.remedy}", width, "  - ")


def _instead(
    plan: Plan, chosen: ArtifactChoice, others: Sequence[Plan] | None, width: int, ram_unknown: bool
) -> Iterator[str]:
    by_a_setting = all(objection.code in (FORBIDDEN, TOO_SMALL, TOO_LARGE) for objection in plan.objections)
    if not others and (plan.fits or plan.nearest or by_a_setting):
        return
    movable = chosen.model.architecture.experts and any(objection.short_bytes for objection in plan.objections)
    if movable and all(artifact.format != "gguf" for artifact in (chosen.model, *chosen.choose_from, *chosen.others)):
        advice = "Experts of a GGUF can be offloaded to CPU, and the catalogue has no GGUF of this model: "
        if known_to_serve("gguf", architecture := chosen.model.architecture.name):
            advice += "name one, as OWNER/REPO:QUANT, or plan a type, as MODEL:Q4_K_M."
        else:
            advice += f"no engine that loads one is known to have {architecture}."
        yield from _wrapped(advice, width)
    if others is None:
        return
    if others:
        yield from _wrapped(_none_of_this(plan, ram_unknown), width)
    elif ram_unknown:
        yield from _wrapped("Nothing that the catalogue has of this model fits without more system RAM.", width)
    else:
        yield from _wrapped("Nothing that the catalogue has of this model, or of smaller ones, fits this box.", width)
    for other in others:
        yield from _brief(other, plan, width)


def _of_own_type(own: Plan, others: Sequence[Plan], plan: Plan, width: int) -> Iterator[str]:
    words = (
        "No artifact that the catalogue has of this model can be served like this. A GGUF of this type can, its size "
    )
    yield from _wrapped(f"{words}by the model's shapes:", width)
    yield from _brief(own, plan, width)
    if others:
        yield from _wrapped("Other models that can:", width)
    for other in others:
        yield from _brief(other, plan, width)


def _brief(other: Plan, plan: Plan, width: int) -> Iterator[str]:
    speed = f"{rate(other.speed.decode)} tok/s, " if plan.goal.minimum_tokens_per_second and other.speed else ""
    cache = (
        f"{speed}{format_tokens(other.context_tokens)} tokens of context, KV cache at least "
        f"{format_tokens(other.kv.low_tokens)}"
    )
    yield from _wrapped(f"{other.model} with {other.engine}: {cache}", width, "  - ")


def _none_of_this(plan: Plan, ram_unknown: bool) -> str:
    if ram_unknown:
        return "No artifact of this model fits without more system RAM. Other models that do:"
    if any(objection.short_bytes for objection in plan.objections):
        return "No artifact of this model fits this box. Other models that do:"
    if any(objection.code == "too-slow" for objection in plan.objections):
        speed = f"{plan.goal.minimum_tokens_per_second:g} tok/s"
        return f"No artifact of this model can reach {speed} on this box. Other models that may:"
    return "No artifact of this model can be served like this. Other models that can:"


def _rungs(plan: Plan, width: int) -> Iterator[str]:
    if plan.rungs:
        yield "  Tuning steps, one setting at a time:"
    names = [
        format_tokens(rung.context_tokens) if rung.name in ("safe-start", "context") else rung.name
        for rung in plan.rungs
    ]
    for rung, name in zip(plan.rungs, names, strict=True):
        tail = "" if rung.fits else " (does not fit)"
        lead = f"  {'+' if rung.fits else '-'} {name:<{max(map(len, names))}}  "
        yield from _wrapped(f"{rung.why}{tail}", width, lead)


def _wrapped(words: str, width: int, first: str = "", colour: str | None = None) -> Iterator[str]:
    """Wrapped, with the first word hanging out."""
    for index, line in enumerate(textwrap.wrap(words, max(20, width - 3 - len(first)), break_on_hyphens=False)):
        lead = style(first, fg=colour) if index == 0 and colour else first if index == 0 else " " * len(first)
        yield f"  {lead}{line}"


def speed_pairs(plan: Plan) -> list[tuple[str, str]]:
    speed = plan.speed
    if speed is None:
        why = next((note.message for note in plan.notes if note.code == "speed-unknown"), "speed is not known")
        return [("decode", why.removeprefix("speed is "))]
    users = "" if plan.goal.users == 1 else f" for each of {plan.goal.users} users"
    decode = f"{rate(speed.decode)} tok/s{users} at {format_tokens(speed.context_tokens)} context"
    if speed.decode.best is not None:
        decode += f"; {rate(speed.empty)} empty, {rate(speed.full)} full"
    else:
        decode += "; the acceptance rate is not known: --acceptance"
    pairs, siblings = [("decode", decode)], f", {SIBLINGS}" if from_siblings(speed) else ""
    pairs.append(("prefill", "not known" if speed.prompt is None else f"{rate(speed.prompt)} tok/s{siblings}"))
    pairs += [("a turn" if found.users == 1 else "", _turn_words(found)) for found in speed.turns]
    if speed.layer_worth is not None:
        pairs.append(("", f"one more layer of experts on the GPUs adds {speed.layer_worth:.2f} tok/s"))
    fitted = "such boxes" if speed.basis == "measured" else "other boxes"
    return [*pairs, ("", f"derived from constants fitted on {fitted}: speeds/{speed.row}; --why shows every term")]


def _turn_words(found: Turn) -> str:
    users = "" if found.users == 1 else f"the last of {found.users} users who ask at once: "
    first = f"{seconds_words(found.first_answer)} to a first answer to {format_tokens(FIRST_PROMPT_TOKENS)} tokens"
    full = f"{seconds_words(found.full_context)} to read a full context again"
    return f"{users}{seconds_words(found.warm)} warm; {first}; {full}"


def why_lines(plan: Plan, width: int) -> Iterator[str]:
    """Every term of memory on the first of each kind of device, and of time."""
    yield "  Every term of memory:"
    for device in _devices(plan):
        for line in (ledger_line for ledger_line in plan.ledger if ledger_line.device == device):
            band = (
                ""
                if line.low_bytes == line.high_bytes
                else f" ({format_memory(line.low_bytes)} to {format_memory(line.high_bytes)})"
            )
            yield from _hanging(
                f"{line.why}{band} [{line.basis}]",
                f"  {device:<6}{line.term:<20}{format_memory(line.bytes):>9}  ",
                width,
            )
    if plan.speed is None:
        return
    for step, title in (("decode", "a decode step"), ("prompt", "prefill")):
        terms = [term for term in plan.speed.terms if term.step == step]
        if terms:
            yield f"  Every term of {title}, {_ms(sum(term.milliseconds for term in terms))}:"
        for term in terms:
            yield from _hanging(term.why, f"  {term.term:<12}{_ms(term.milliseconds):>10}  ", width)
    yield from _hanging(plan.speed.why, "  band  ", width)
    if plan.speed.prompt_why:
        yield from _hanging(plan.speed.prompt_why, "  band of prefill  ", width)


def table_lines(plans: Sequence[Plan], width: int) -> Iterator[str]:
    """Every configuration, best first. What does not fit says why."""
    rows = [_row(plan) for plan in plans]
    first = min(max(len(row[0]) for row in rows), max(24, width - 42))
    yield f"  {'configuration':<{first}} {'decode':>7} {'least':>6} {'prefill':>7} {'KV cache':>10}"
    for name, *figures, no in rows:
        head, *more = textwrap.wrap(name, first, break_on_hyphens=False) or [""]
        yield f"  {head:<{first}} {figures[0]:>7} {figures[1]:>6} {figures[2]:>7} {figures[3]:>10}".rstrip()
        yield from (f"    {line}" for line in more)
        if no:
            yield from _hanging(no, "    no: ", width)


def rate(found: Rate) -> str:
    """`73 (66-76)`, or `40-90` if only the band is known."""
    if found.best is None:
        return f"{_number(found.low)}-{_number(found.high)}"
    return f"{_number(found.best)} ({_number(found.low)}-{_number(found.high)})"


def _row(plan: Plan) -> tuple[str, str, str, str, str, str]:
    speed = plan.speed
    no = plan.objections[0].message if plan.objections else ""
    cache = format_tokens(plan.kv.low_tokens) if plan.kv.low_tokens else "none"
    if any(objection.code != "too-slow" for objection in plan.objections):  # such a speed will not be seen
        return configuration_words(plan), "-", "-", "-", cache, no
    if speed is None:
        return configuration_words(plan), "?", "?", "?", cache, no
    best = "?" if speed.decode.best is None else _number(speed.decode.best)
    prompt = "?" if speed.prompt is None or speed.prompt.best is None else _number(speed.prompt.best)
    return configuration_words(plan), best, _number(speed.decode.low), prompt, cache, no


def _devices(plan: Plan) -> list[str]:
    """The first of devices with the same ledger."""
    by_ledger: dict[tuple[tuple[str, int], ...], str] = {}
    for budget in plan.budgets:
        terms = tuple((line.term, line.bytes) for line in plan.ledger if line.device == budget.device)
        by_ledger.setdefault(terms, budget.device)
    held = list(by_ledger.values())
    return held if "host" in held else [*held, "host"]


def _hanging(words: str, first: str, width: int) -> Iterator[str]:
    lines = textwrap.wrap(words, max(24, width - len(first)), break_on_hyphens=False)
    for index, line in enumerate(lines or [""]):
        yield (first if index == 0 else " " * len(first)) + line


def _ms(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.2f} s" if milliseconds >= 1000 else f"{milliseconds:.2f} ms"


def _number(value: float) -> str:
    return f"{value:.1f}" if value < 30 else f"{value:,.0f}"
