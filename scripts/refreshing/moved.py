"""A file before and after -> what moved in it, a line each: which cell or line, old -> new, and by how much."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher

FIGURE = re.compile(r"\d[\d,]*(?:\.\d+)?")
KEYS = ("box", "model", "id")
"""Columns that say which row of a table it is."""
Rows = Mapping[tuple[str, ...], Mapping[str, str]]


def moved(name: str, before: bytes | None, after: bytes | None) -> Iterator[str]:
    if before == after:
        return
    if before is None or after is None:
        yield f"{name}: {'is gone' if after is None else 'is new'}"
        return
    try:
        old, new = before.decode(), after.decode()
    except UnicodeDecodeError:
        yield f"{name}: {len(before):,} -> {len(after):,} bytes"
        return
    found = cells(table(old), table(new)) if name.endswith(".csv") else lines(old.splitlines(), new.splitlines())
    yield from (f"{name}: {line}" for line in found)


def table(text: str) -> Rows:
    rows = list(csv.DictReader(text.splitlines()))
    keys = [name for name in KEYS if rows and name in rows[0]]
    return {tuple(row[name] for name in keys): row for row in rows}


def cells(before: Rows, after: Rows) -> Iterator[str]:
    """Rows by their key."""
    for key in sorted({*before, *after}):
        if key not in before or key not in after:
            yield f"{' '.join(key)}: {'is new' if key in after else 'is gone'}"
            continue
        for column, old in before[key].items():
            if (new := after[key].get(column, "")) != old:
                yield f"{' '.join(key)}: {column} {change(old, new)}"


def lines(before: list[str], after: list[str]) -> Iterator[str]:
    """Figures of lines that say the same otherwise; of other lines only how many."""
    for what, old_from, old_to, new_from, new_to in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        old, new = before[old_from:old_to], after[new_from:new_to]
        if what == "equal":
            continue
        if [masked(line) for line in old] != [masked(line) for line in new]:
            yield f"line {old_from + 1}: {len(old)} lines -> {len(new)} lines"
            continue
        for number, (left, right) in enumerate(zip(old, new, strict=True), old_from + 1):
            figures = zip(FIGURE.findall(left), FIGURE.findall(right), strict=True)
            yield f"line {number}: {', '.join(change(one, other) for one, other in figures if one != other)}"


def masked(line: str) -> str:
    """The line without its figures, and without the space that their length leaves."""
    return " ".join(FIGURE.sub("0", line).split())


def change(old: str, new: str) -> str:
    """`60.2 -> 63.1 (+4.8 %)`"""
    shown = f"{old or 'nothing'} -> {new or 'nothing'}"
    if FIGURE.fullmatch(old) and FIGURE.fullmatch(new) and float(old.replace(",", "")):
        share = float(new.replace(",", "")) / float(old.replace(",", "")) - 1
        return f"{shown} ({100 * share:+.1f} %)"
    return shown
