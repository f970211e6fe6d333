"""A file of our rows -> the same rows without parsing, kept as byte code is: beside the sources, keyed by digests.

Made when the package is built, and anew when a source has changed since; whoever may not write there parses. What is
kept can name rows and records only.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import sys
import zlib
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from upright.facts.catalog.rows.base import Row

OURS = Path(__file__).parent
KEPT = OURS / "compiled"
_SHAPES = (
    *sorted((OURS / "rows").glob("*.py")),
    OURS / "versions.py",
    OURS.parent / "records/base.py",
    OURS.parent / "records/recipe.py",
)
"""What decides how a row's text becomes a row."""
_MAY_BE_NAMED = ("upright.facts.catalog.rows.", "upright.facts.records.")
_KEY_BYTES = 32


def kept_rows(path: Path, text: str) -> tuple[Row, ...] | None:
    """The rows of that file as it stands; None if nobody kept them, or kept others."""
    try:
        content = _place(path).read_bytes()
    except OSError:
        return None
    if content[:_KEY_BYTES] != _key(path, text):
        return None
    try:
        rows: tuple[Row, ...] = _Reader(io.BytesIO(zlib.decompress(content[_KEY_BYTES:]))).load()
    except (
        zlib.error,
        pickle.UnpicklingError,
        EOFError,
        AttributeError,
        ImportError,
        IndexError,
        ValueError,
        TypeError,
    ):
        return None  # torn, or of other classes than ours are now
    return rows


def keep_rows(path: Path, text: str, rows: tuple[Row, ...], *, anyway: bool = False) -> None:
    """Where byte code is written too, unless `anyway`; that it cannot be written is nobody's concern."""
    if sys.dont_write_bytecode and not anyway:
        return
    place = _place(path)
    part = place.with_name(f"{place.name}.{os.getpid()}")
    try:
        place.parent.mkdir(exist_ok=True)
        part.write_bytes(_key(path, text) + zlib.compress(pickle.dumps(rows, protocol=4), 9))
        part.replace(place)
    except OSError:
        with suppress(OSError):
            part.unlink()


def _place(path: Path) -> Path:
    home = OURS if path.is_relative_to(OURS) else OURS.parents[1]  # rows beside an engine
    return KEPT / f"{path.relative_to(home).as_posix().replace('/', '.')}.rows"


def _key(path: Path, text: str) -> bytes:
    return hashlib.sha256(b"\0".join((_shape(), path.name.encode(), text.encode()))).digest()


@cache
def _shape() -> bytes:
    """Of the classes that rows have."""
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in _SHAPES)).digest()


class _Reader(pickle.Unpickler):
    """As pickle, for rows and what they are made of: it names no other class and no function."""

    def find_class(self, module: str, name: str) -> Any:
        if not module.startswith(_MAY_BE_NAMED) or not isinstance(
            named_class := super().find_class(module, name), type
        ):
            raise pickle.UnpicklingError(f"{module}.{name} is no row")
        return named_class
