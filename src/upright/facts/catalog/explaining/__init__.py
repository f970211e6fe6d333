"""Explanations of a name: what it is, why it matters, what to do about it.

One verb explains anything: rows of every kind, flags, variables, fields of records, silicon, engines, a line of a log.
A name can mean several things (`context`, `--host`), so the answer is a tuple.
"""

from __future__ import annotations

from collections.abc import Iterator

from upright.base.errors import CatalogError
from upright.facts.catalog import near_names
from upright.facts.catalog.explaining.explanation import Explanation as Explanation


def explain(name: str) -> tuple[Explanation, ...]:
    """Everything that the name means; an unknown one is an error with near names."""
    wanted = name.strip().lower()
    explanations = tuple(sorted(_all(name.strip()), key=lambda explanation: explanation.name.lower() != wanted))
    explanations = explanations or tuple(_parts(name.strip()))
    if not explanations and not wanted.startswith("-"):
        spelling = near_names.as_id(wanted).replace("_", "-")
        explanations = tuple(_all(spelling)) or tuple(_all(f"--{spelling}"))  # an id or a flag, typed as words
    if not explanations:
        close = near(name)
        hint = f"near: {', '.join(close)}" if close else "upright catalog list names the kinds"
        raise CatalogError(f"nothing is called {name}", hint=hint)
    return explanations


def near(name: str, count: int = 4) -> tuple[str, ...]:
    """Names that look like it."""
    from upright.facts.catalog.explaining.names import every_name

    close_names = near_names.near_names(name, every_name(), 5 * count)
    fields = {
        known_name.rpartition(".")[2] if known_name[:1].isupper() else known_name: known_name
        for known_name in reversed(close_names)
    }
    return tuple(known_name for known_name in close_names if known_name in fields.values())[:count]


def _all(name: str) -> Iterator[Explanation]:
    from upright.facts.catalog.explaining import names

    yield from names.rows_called(name)
    yield from names.flags_recorded(name)
    yield from names.variables(name)
    yield from names.fields(name)
    yield from names.explain_compute_capability(name)
    yield from names.engines(name)
    yield from names.citations(name)
    yield from names.lines(name)


def _parts(line: str) -> Iterator[Explanation]:
    """Where nothing knows the line itself: the parts of an engine that it may speak of."""
    from upright.facts.catalog.explaining import names

    yield from names.lines(line, parts=True)
