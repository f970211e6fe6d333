"""The habits of records: a one-line string under every field, a unit at the end of every name that needs one."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest

import upright
from upright.facts.records.base import Part
from upright.facts.records.fields import field_doc, field_docs

ROOT = Path(__file__).parents[2]


def _parts() -> list[type[Part]]:
    """All of the house, whichever tests were collected before."""
    for module in walk_packages(upright.__path__, "upright."):
        if "payload" not in module.name and not module.name.endswith("__main__"):
            import_module(module.name)
    parts: list[type[Part]] = []
    waiting = [Part]
    while waiting:
        for kind in waiting.pop().__subclasses__():
            waiting.append(kind)
            if kind.__module__.startswith("upright."):
                parts.append(kind)
    return sorted(parts, key=lambda kind: (kind.__module__, kind.__name__))


@pytest.mark.parametrize("part", _parts(), ids=lambda part: f"{part.__module__}.{part.__name__}")
def test_every_field_says_in_one_line_what_it_is(part: type[Part]) -> None:
    docs = field_docs(part)
    assert [name for name in part.model_fields if name not in docs] == [], "put a string under the field"
    assert [name for name, words in docs.items() if "\n" in words or not words.strip()] == [], "one line, not empty"
    assert part.__doc__, "say what it is"


def test_a_field_is_explained_where_it_is_inherited() -> None:
    from upright.facts.records.plan import Plan

    assert field_doc(Plan, "made_from") == "`kind:sha256` of each record that this one was made from."
    assert field_doc(Plan, "nothing") is None
    assert list(field_docs(Plan)) == list(Plan.model_fields)


def test_the_generated_pages_are_current() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/generate-docs", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"run scripts/generate-docs and commit what it writes\n{done.stderr}"
