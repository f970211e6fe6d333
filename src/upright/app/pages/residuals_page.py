"""Residuals -> a page: each device's terms, predicted, measured and their difference, and what the next plan takes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from upright.base.terminal.safe_output import style
from upright.base.units import format_memory, format_tokens
from upright.engines.memory_report import MemoryReport, Reading
from upright.facts.records.base import Figure
from upright.facts.records.residuals import Residual, Residuals
from upright.planning.memory.earlier_starts import MEASURED_TERMS

_COLUMNS = (14, 12, 12, 12)
_COUNTED = ("kv_tokens", "context_tokens", "concurrency", "capture_seconds")


def residuals_page(found: Residuals, width: int) -> str:
    return "\n".join(_page(found, width))


def report_page(source: str, engine: str, report: MemoryReport, width: int) -> str:
    """A log alone: what it says, with nothing to compare it with."""
    ordered = sorted(report.readings, key=lambda reading: (reading.device or "", reading.what))
    rows = (f"  {reading.device or 'engine':<8}{reading.what:<18}{_value(reading)}" for reading in ordered)
    return "\n".join([*_wrapped(f"{source}: what {engine} says about its memory", width), "", *rows])


def learned_terms(found: Residuals) -> tuple[str, ...]:
    """What the next plan takes from this start."""
    taught = {
        line.term for line in found.lines if line.term in MEASURED_TERMS and line.measured_bytes.value is not None
    }
    return tuple(term for term in MEASURED_TERMS if term in taught)


def _page(found: Residuals, width: int) -> Iterator[str]:
    yield from _wrapped(f"{found.deployment}: what was planned, and what the engine took", width)
    version = f" {found.engine_version}" if found.engine_version else ""
    yield from _wrapped(f"{found.engine}{version} on {found.box}, read {found.at[:16].replace('T', ' ')} UTC", width)
    yield ""
    yield _row(("", "predicted", "measured", "difference"))
    for names, lines in _groups(found):
        yield names
        for line in lines:
            yield from _term(line, width)
    yield from _pool(found)
    yield ""
    for reason in found.unread:
        yield from _wrapped(f"not read: {reason}", width)
    if terms := learned_terms(found):
        yield from _wrapped(
            f"The next plan for this box with {found.engine}{version} uses what was measured of {', '.join(terms)}.",
            width,
        )
    else:
        yield "Nothing was measured that a plan could use."


def _groups(found: Residuals) -> list[tuple[str, list[Residual]]]:
    """Devices with the same figures, together."""
    devices: dict[str, list[Residual]] = {}
    for line in found.lines:
        devices.setdefault(line.device, []).append(line)
    groups: dict[tuple[object, ...], list[str]] = {}
    for device, lines in devices.items():
        groups.setdefault(tuple((x.term, x.predicted_bytes.value, x.measured_bytes.value) for x in lines), []).append(
            device
        )
    return [(_names(names), devices[names[0]]) for names in groups.values()]


def _names(devices: Sequence[str]) -> str:
    return devices[0] if len(devices) == 1 else f"{devices[0]} to {devices[-1]}, each of {len(devices)}"


def _term(line: Residual, width: int) -> Iterator[str]:
    verdict = {True: style("in the band", fg="green"), False: style("outside the band", fg="yellow"), None: ""}[
        line.within
    ]
    shown = (f"  {line.term}", _memory(line.predicted_bytes), _memory(line.measured_bytes), _difference(line))
    yield f"{_row(shown)}  {verdict}".rstrip()
    if line.measured_bytes.value is None and line.measured_bytes.source:
        yield from _wrapped(line.measured_bytes.source, width, "    ")


def _pool(found: Residuals) -> Iterator[str]:
    pool = found.pool
    difference = (
        "" if pool.difference_tokens is None else f"{pool.difference_tokens:+,}" if pool.difference_tokens else "0"
    )
    yield _row(("cache, tokens", _tokens(pool.predicted_tokens), _tokens(pool.measured_tokens), difference))


def _row(cells: tuple[str, ...]) -> str:
    first, *others = (
        cell.rjust(size) if index else cell.ljust(size)
        for index, (cell, size) in enumerate(zip(cells, _COLUMNS, strict=True))
    )
    return (first + "".join(others)).rstrip()


def _memory(figure: Figure) -> str:
    return "-" if figure.value is None else format_memory(figure.value)


def _tokens(figure: Figure) -> str:
    return "-" if figure.value is None else format_tokens(int(figure.value))


def _difference(line: Residual) -> str:
    if line.difference_bytes is None:
        return ""
    amount = format_memory(abs(line.difference_bytes))
    return amount if line.difference_bytes == 0 else f"{'+' if line.difference_bytes > 0 else '-'}{amount}"


def _value(reading: Reading) -> str:
    return f"{reading.value:,.2f}".removesuffix(".00") if reading.what in _COUNTED else format_memory(reading.value)


def _wrapped(text: str, width: int, indent: str = "") -> Iterator[str]:
    yield from textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
