"""A name -> what it is, why it matters, what to do about it.

One verb explains anything: rows of every kind, flags, variables, fields of records, silicon, engines, a line of a log.
A name can mean several things (`context`, `--host`), so the answer is a tuple.
"""

from __future__ import annotations

from collections.abc import Iterator

from upright.catalog import nearness
from upright.catalog.explaining.explanation import Explanation as Explanation
from upright.errors import CatalogError


def explain(name: str) -> tuple[Explanation, ...]:
    """Everything that the name means; an unknown one is an error with near names."""
    wanted = name.strip().lower()
    found = tuple(sorted(_all(name.strip()), key=lambda each: each.name.lower() != wanted))
    if not found and not wanted.startswith("-"):
        words = nearness.bare(wanted).replace("_", "-")
        found = tuple(_all(words)) or tuple(_all(f"--{words}"))  # an id or a flag, typed as words
    if not found:
        close = near(name)
        hint = f"near: {', '.join(close)}" if close else "upright catalog list names the kinds"
        raise CatalogError(f"nothing is called {name}", hint=hint)
    return found


def near(name: str, count: int = 4) -> tuple[str, ...]:
    """Names that look like it."""
    from upright.catalog.explaining.names import every_name

    found = nearness.near(name, every_name(), 5 * count)
    fields = {each.rpartition(".")[2] if each[:1].isupper() else each: each for each in reversed(found)}
    return tuple(each for each in found if each in fields.values())[:count]


def _all(name: str) -> Iterator[Explanation]:
    from upright.catalog.explaining import names

    yield from names.rows_called(name)
    yield from names.flags_recorded(name)
    yield from names.variables(name)
    yield from names.fields(name)
    yield from names.silicon(name)
    yield from names.engines(name)
    yield from names.lines(name)
