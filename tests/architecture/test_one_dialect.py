"""YAML is read and written in one place, so that `on` is the same word in every file."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src/upright"
PARSES = {"load", "load_all", "safe_load", "safe_load_all", "full_load", "unsafe_load", "compose", "compose_all"}


def test_nobody_else_parses_yaml():
    elsewhere = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in SOURCE.rglob("*.py")
        if path.name != "yaml12.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and node.attr in PARSES
        and isinstance(node.value, ast.Name)
        and node.value.id == "yaml"
    ]
    assert elsewhere == []
