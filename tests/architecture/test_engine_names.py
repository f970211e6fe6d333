"""An engine's name is spelled in its own folder and in the catalogue's rows; elsewhere code asks the engine.

Counted by the syntax tree: strings, imports, attributes and names. Documentation (a string that stands alone) and
comments are for people.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from upright.engines import ENGINES

HOUSE = Path(__file__).parents[2] / "src/upright"
MAY_SPELL = (("engines",), ("facts", "catalog"))
ENGINE_NAME = re.compile(
    rf"(?<!o)(?:{'|'.join(sorted({re.escape(name.partition('.')[0]) for name in ENGINES}))})", re.IGNORECASE
)
"""Ollama is none of them."""


def test_engines_are_named_in_their_folders_only():
    spelled = [line for path in _sources() for line in spellings(path.read_text(), str(path.relative_to(HOUSE)))]
    assert not spelled, "\n".join(spelled)


@pytest.mark.parametrize(
    "source",
    [
        'engine == "vllm"',
        "from upright.engines.vllm import flags",
        "from upright.engines import sglang",
        "engine is engines.VLLM",
        "def _llama_words(): ...",
        'help = f"ask {x}: a llama-server"',
        "def f(vllm): ...",
        "f(vllm=1)",
    ],
)
def test_a_spelling_is_seen(source: str):
    assert spellings(source, "x.py")


@pytest.mark.parametrize("source", ['"""What vLLM calls it."""', "x: int\n'''In GiB, as SGLang writes.'''", "# vllm"])
def test_documentation_is_free(source: str):
    assert not spellings(source, "x.py")


def spellings(source: str, where: str) -> list[str]:
    return [f"{where}:{line}: {text[:90]!r}" for line, text in _texts(ast.parse(source)) if ENGINE_NAME.search(text)]


def _texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        match node:
            case ast.Constant(value=str(text)) if id(node) not in documentation:
                yield line, text
            case ast.Attribute(attr=text) | ast.Name(id=text) | ast.arg(arg=text) | ast.keyword(arg=str(text)):
                yield line, text
            case ast.FunctionDef(name=text) | ast.AsyncFunctionDef(name=text) | ast.ClassDef(name=text):
                yield line, text
            case ast.alias(name=text) | ast.ImportFrom(module=str(text)):
                yield line, text


def _sources() -> Iterator[Path]:
    for path in sorted(HOUSE.rglob("*.py")):
        if not any(path.relative_to(HOUSE).parts[: len(room)] == room for room in MAY_SPELL):
            yield path
