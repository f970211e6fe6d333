"""The comparison as SVG: decode with its band, longest context and users, a bar for each column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from upright.facts.records.comparison import ComparedPlan, Comparison
from upright.facts.store import write_inside

_WIDTH, _NAMES, _BAR, _GAP, _HEAD = 760, 270, 18, 8, 34
_COLOURS = ("#3b6ea8", "#c77d2e", "#4f8f5b", "#8a5fa8", "#a84a4a", "#5d6678")
_LONGEST_NAME = 40


class _Panel(NamedTuple):
    title: str
    amounts: Sequence[float | None]
    bands: Sequence[tuple[float, float] | None]


def draw_picture(comparison: Comparison, path: Path) -> None:
    write_inside(path, compare_picture(comparison))


def compare_picture(comparison: Comparison) -> str:
    """Plain shapes and text: nothing is fetched, nothing runs."""
    columns = comparison.columns
    panels = [
        _Panel("decode, tok/s that each user sees (the line is the band)", [_decode(each) for each in columns],
               [_band(each) for each in columns]),
        _Panel("longest context of one user, tokens", [float(each.largest_context_tokens) for each in columns],
               [None] * len(columns)),
        _Panel("users who can fill the context at once", [float(each.users_at_context) for each in columns],
               [None] * len(columns)),
    ]  # fmt: skip
    each = _HEAD + len(columns) * (_BAR + _GAP)
    height = len(panels) * each + 10
    shapes = "\n".join(shape for index, panel in enumerate(panels) for shape in _panel(panel, columns, index * each))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'role="img" font-family="sans-serif" font-size="12">\n<title>{escape(_title(comparison))}</title>\n'
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>\n{shapes}\n</svg>\n'
    )


def _title(comparison: Comparison) -> str:
    names = ", ".join(dict.fromkeys(f"{column.model} on {column.box}" for column in comparison.columns))
    return f"{comparison.goal.use}: {names}"


def _panel(panel: _Panel, columns: Sequence[ComparedPlan], top: int) -> Iterator[str]:
    yield f'<text x="8" y="{top + 22}" font-weight="bold" fill="#1c2230">{escape(panel.title)}</text>'
    ends = [band[1] for band in panel.bands if band] + [amount for amount in panel.amounts if amount]
    scale = (_WIDTH - _NAMES - 110) / max(ends, default=1.0)
    for index, (column, amount, band) in enumerate(zip(columns, panel.amounts, panel.bands, strict=True)):
        y = top + _HEAD + index * (_BAR + _GAP)
        yield f'<text x="8" y="{y + 13}" fill="#1c2230">{escape(_name(column))}</text>'
        if amount is None or amount == 0:
            placeholder = "does not fit" if not column.fits else "not known"
            yield f'<text x="{_NAMES}" y="{y + 13}" fill="#5d6678">{placeholder}</text>'
            continue
        end, colour = _NAMES + amount * scale, _COLOURS[index % len(_COLOURS)]
        yield f'<rect x="{_NAMES}" y="{y}" width="{amount * scale:.1f}" height="{_BAR}" fill="{colour}"/>'
        if band:
            low, high = (_NAMES + end_of * scale for end_of in band)
            middle = y + _BAR / 2
            ends_of = f'x1="{low:.1f}" y1="{middle}" x2="{high:.1f}" y2="{middle}"'
            yield f'<line {ends_of} stroke="#1c2230" stroke-width="2"/>'
            end = max(end, high)
        yield f'<text x="{end + 6:.1f}" y="{y + 13}" fill="#1c2230">{_plain(amount)}</text>'


def _name(column: ComparedPlan) -> str:
    name = f"{column.box}: {column.model}"
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def _decode(column: ComparedPlan) -> float | None:
    return column.decode.best if column.decode and column.fits else None


def _band(column: ComparedPlan) -> tuple[float, float] | None:
    return (column.decode.low, column.decode.high) if column.decode and column.fits else None


def _plain(amount: float) -> str:
    return f"{amount:,.0f}" if amount >= 20 else f"{amount:.1f}".removesuffix(".0")
