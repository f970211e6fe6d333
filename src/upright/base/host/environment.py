"""Which environment variables are passed on to engines, clients and tools, by rows that say why.

An engine runs code that comes with a model. It gets what it needs to find its libraries, its GPUs and its caches, and
no key, token or password; a name more is the person's to give.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from upright.base.yaml12 import from_yaml

Recipient = Literal["engine", "client", "tool", "supervisor"]
_SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASS", "CREDENTIAL", "CREDENTIALS", "AUTH")
_SECRET = re.compile(rf"(?:^|_)(?:{'|'.join(_SECRET_WORDS)})(?:_|$)|APIKEY", re.IGNORECASE)


@dataclass(frozen=True)
class PassedVariables:
    """Variables that are handed on: these names, and whatever begins so and does not look like a secret."""

    to: tuple[Recipient, ...]
    names: tuple[str, ...]
    prefixes: tuple[str, ...]
    why: str
    source: str


@cache
def passed_variables() -> tuple[PassedVariables, ...]:
    rows = from_yaml(files("upright.base.host").joinpath("environment.yaml").read_text(encoding="utf-8"))
    return tuple(
        PassedVariables(**{field: _read(row.get(field, ())) for field in PassedVariables.__annotations__})
        for row in rows
    )


def passed_environment(environment: Mapping[str, str], to: Recipient, *, named: Iterable[str] = ()) -> dict[str, str]:
    """What of it goes there. `named` are those that the person asked for."""
    asked = set(named)
    return {name: setting for name, setting in environment.items() if name in asked or _passes(name, to)}


def environment_script(to: Recipient, *, named: Iterable[str] = ()) -> str:
    """The same choice for a POSIX shell: it unsets everything else that it was given."""
    rows = [row for row in passed_variables() if to in row.to]
    exact = "|".join(dict.fromkeys((*named, *(name for row in rows for name in row.names))))
    begins = "|".join(f"{prefix}*" for row in rows for prefix in row.prefixes)
    secret = "|".join(pattern for word in _SECRET_WORDS for pattern in (f"*_{word}", f"*_{word}_*"))
    return f"""for name in $(env | sed -n 's/^\\([A-Za-z_][A-Za-z0-9_]*\\)=.*/\\1/p'); do
  case $name in
    {exact}) ;;
    {secret}|*APIKEY*) unset "$name" ;;
    {begins}) ;;
    *) unset "$name" ;;
  esac
done"""


def _read(field: Any) -> Any:
    return tuple(field) if isinstance(field, list) else field


def _passes(name: str, to: Recipient) -> bool:
    rows = [row for row in passed_variables() if to in row.to]
    if any(name in row.names for row in rows):
        return True
    return _SECRET.search(name) is None and any(name.startswith(row.prefixes) for row in rows)
