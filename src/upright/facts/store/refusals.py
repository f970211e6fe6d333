"""The last `upright up` that was refused, kept until one succeeds."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from upright.base.bounds.bounded_json import parse_json
from upright.base.bounds.files import file_bytes
from upright.base.errors import UprightError
from upright.base.home import home, make_private
from upright.base.progress import utc_now
from upright.facts.store.directories import deployments
from upright.facts.store.files import write_atomically

_FILE = "refused.json"
_LONGEST_BYTES = 64 << 10
_LONGEST_WORDS = 2000


class RefusedStart(NamedTuple):
    """What was asked for, and why it was not started."""

    model: str
    message: str
    hint: str | None
    at: str
    """When (UTC, ISO 8601)."""


def note_refusal(model: str, message: str, hint: str | None) -> None:
    """A disk that takes no note does not hide why it was refused."""
    told = {"model": model, "message": message[:_LONGEST_WORDS], "hint": hint, "at": utc_now()}
    with suppress(OSError, UprightError):
        make_private(home())
        write_atomically(home() / _FILE, json.dumps(told).encode())


def forget_refusal() -> None:
    with suppress(OSError):
        (home() / _FILE).unlink(missing_ok=True)


def last_refusal() -> RefusedStart | None:
    """None if something was started since."""
    file = home() / _FILE
    try:
        told = parse_json(file_bytes(file, _LONGEST_BYTES, own=True))
        words = {name: told.get(name) for name in ("model", "message", "hint", "at")}
        noted_at = file.stat().st_mtime
    except (OSError, ValueError, AttributeError):
        return None
    model, message, at = (str(words[name] or "")[:_LONGEST_WORDS] for name in ("model", "message", "at"))
    started = max((_written_at(directory.path / "recipe.json") for directory in deployments()), default=0.0)
    hint = str(words["hint"])[:_LONGEST_WORDS] if words["hint"] else None
    return RefusedStart(model, message, hint, at) if message and noted_at > started else None


def _written_at(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0
