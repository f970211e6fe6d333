"""A record's shape cannot change unnoticed: files on people's disks are read by the schema that they name.

`shapes.json` holds a digest of the JSON schema of every record by its version. Another shape needs another version, an
upgrade from the one before, a fixture of the old one, and a line here (the test prints it).
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from upright.facts.records.base import canonical
from upright.facts.records.loading import KINDS, record_class

SHAPES: dict[str, dict[str, str]] = json.loads((Path(__file__).parent / "shapes.json").read_text())


def shape(kind: str) -> str:
    """Names, types and bounds; words that explain them, and names of our classes, may change freely."""
    schema = record_class(kind).model_json_schema()
    return hashlib.sha256(canonical(_bare(_inlined(schema, schema.get("$defs", {}))))).hexdigest()[:16]


def _inlined(schema: Any, definitions: dict[str, Any], above: tuple[str, ...] = ()) -> Any:
    """Definitions where they are used, as no file names them; one inside itself by how far above it stands."""
    if isinstance(schema, list):
        return [_inlined(part, definitions, above) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if isinstance(reference := schema.get("$ref"), str):
        name = reference.removeprefix("#/$defs/")
        if name in above:
            return {"above": above[::-1].index(name)}
        rest = {key: part for key, part in schema.items() if key != "$ref"}
        return _inlined({**definitions[name], **rest}, definitions, (*above, name))
    return {key: _inlined(part, definitions, above) for key, part in schema.items() if key not in ("$defs", "mapping")}


def _bare(schema: Any, *, names: bool = False) -> Any:
    if isinstance(schema, list):
        return [_bare(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    words = () if names else ("description", "title", "examples")
    return {
        name: _bare(value, names=name in ("properties", "$defs")) for name, value in schema.items() if name not in words
    }


@pytest.mark.parametrize("kind", KINDS)
def test_another_shape_is_another_version(kind: str) -> None:
    version = str(record_class(kind).schema_version)
    known = SHAPES.get(kind, {}).get(version)
    line = f'"{kind}": {{"{version}": "{shape(kind)}"}}'
    if known is None:
        pytest.fail(f"a new record or version: put {line} into shapes.json")
    assert shape(kind) == known, (
        f"{kind} has another shape and still says schema {version}: raise schema_version, bring an upgrade and a "
        f"fixture of the old one; then put {line} into shapes.json"
    )


def test_words_are_no_shape_and_types_are() -> None:
    before = {"title": "A", "properties": {"title": {"type": "string", "description": "x"}}}
    assert _bare(before) == _bare({"title": "B", "properties": {"title": {"type": "string", "description": "y"}}})
    assert _bare(before) != _bare({"properties": {"title": {"type": "integer"}}})
    assert _bare(before) != _bare({"properties": {}})
