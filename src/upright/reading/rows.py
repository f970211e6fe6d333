"""A row file of the catalogue -> its content, parsed once."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import yaml

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def rows(path: str) -> Any:
    """`ggml_types.yaml` and the like; callers must not change what they get."""
    text = files("upright.catalog").joinpath(path).read_text(encoding="utf-8")
    return yaml.load(text, Loader=_Loader)  # noqa: S506  (the safe loader, in C where there is one)


@cache
def row_files(folder: str) -> tuple[str, ...]:
    """The YAML files of a folder, by name."""
    entries = files("upright.catalog").joinpath(folder).iterdir()
    return tuple(sorted(f"{folder}/{entry.name}" for entry in entries if entry.name.endswith(".yaml")))
