"""A row file of the catalogue -> its content, parsed once."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from upright.base.yaml12 import from_yaml


@cache
def catalogue_file(path: str) -> Any:
    """`ggml_types.yaml` and the like; callers must not change what they get."""
    text = files("upright.facts.catalog").joinpath(path).read_text(encoding="utf-8")
    return from_yaml(text)


@cache
def row_files(folder: str) -> tuple[str, ...]:
    """The YAML files of a folder, by name."""
    entries = files("upright.facts.catalog").joinpath(folder).iterdir()
    return tuple(sorted(f"{folder}/{entry.name}" for entry in entries if entry.name.endswith(".yaml")))
