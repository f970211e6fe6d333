"""A file -> its record: JSON that machines wrote, YAML that people edited, and what is neither."""

from __future__ import annotations

from pathlib import Path

import pytest

from upright.base.errors import RecordError
from upright.facts import records
from upright.facts.records.box import Box
from upright.facts.records.loading import KINDS
from upright.facts.records.recipe import Recipe

BY_HAND = """\
# mine
record: recipe
schema: 1
engine: llama.cpp
engine_version: "0.10"
runtime: process
program: /opt/llama/llama-server
arguments:
  - name: --ctx-size
    value: 65536
    reason: my editor needs it
  - {name: --flash-attn, value: on, reason: faster}
  - {name: --override-kv, value: 010, reason: leading zeros stay}
  - {name: --jinja, reason: the template, source: 2026-11-15}
model_path: /models/tiny.gguf
served_name: tiny
host: 127.0.0.1
port: 8080
context_tokens: 65536
users: 1
health_path: /health
metrics_path: ~
"""


def test_a_recipe_written_by_hand_needs_no_digest(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(BY_HAND)
    recipe = records.load(file)
    assert isinstance(recipe, Recipe)
    assert recipe.argv[1:] == ("--ctx-size", "65536", "--flash-attn", "on", "--override-kv", "010", "--jinja")
    assert recipe.arguments[3].source == "2026-11-15"
    assert recipe.metrics_path is None


def test_another_kind_than_was_asked_for_is_refused() -> None:
    assert records.load(BY_HAND, Recipe).port == 8080
    with pytest.raises(RecordError, match="record is a recipe, not a box"):
        records.load(BY_HAND, Box)


def test_what_is_written_as_yaml_can_be_edited_and_read_again() -> None:
    recipe = records.load(BY_HAND, Recipe)
    text = recipe.to_yaml()
    assert "digest" not in text
    assert records.load(text) == recipe
    assert records.load(text.replace("port: 8080", "port: 8081"), Recipe).port == 8081


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"0.10"', "0.10", "record is not a valid recipe: engine_version: 0.1 is a number here; put it in quotes"),
        ("port: 8080", "port: many", "port: Input should be a valid integer"),
        ("port: 8080", "prot: 8080", "port: Field required (and 1 more)"),
        ("record: recipe", "record: recipie", "record names no record kind that is known: recipie"),
        ("record: recipe\n", "", "record does not name its record kind"),
        ("schema: 1\n", "", "has no schema of a recipe: None"),
        ("users: 1", "users: [", "record line 22 is not YAML"),
        ("schema: 1", "schema: 1\ndigest: abc", "its digest does not fit"),
    ],
)
def test_a_slip_of_the_hand_is_told_by_its_name(old: str, new: str, message: str) -> None:
    with pytest.raises(RecordError) as caught:
        records.load(BY_HAND.replace(old, new))
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected names and values"),
        ("just words", "expected names and values"),
        ("[1, 2]", "expected names and values"),
        ('{"record": "box"', "is not JSON"),
        (b"\xff\xfe", "is not text"),
        ("!!python/object/apply:os.system [id]", "is not YAML"),
    ],
)
def test_what_is_no_record_is_refused(text: str | bytes, message: str) -> None:
    with pytest.raises(RecordError) as caught:
        records.load(text, where="it")
    assert caught.value.message.startswith("it ")
    assert message in caught.value.message


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"nothing\.yaml cannot be read: No such file"):
        records.load(tmp_path / "nothing.yaml")


def test_the_hint_names_the_kinds() -> None:
    with pytest.raises(RecordError) as caught:
        records.load("record: nonsense")
    assert caught.value.hint is not None
    assert all(kind in caught.value.hint for kind in KINDS)
