"""Code of a model's own is run where the catalogue knows it and the artifact brings it, and never by a name alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.engines.test_dialects import folder, recipe
from upright.models.reading import read

ENGINES = ("vllm", "sglang")


def bringing(path: Path, name: str, **classes: str) -> str:
    """A folder whose tokenizer settings name code of their own."""
    made = folder(path, name, "{{ messages }}")
    settings = json.loads((made / "tokenizer_config.json").read_text())
    (made / "tokenizer_config.json").write_text(json.dumps({**settings, "auto_map": classes}))
    return str(made)


def trusts(model: str, engine: str) -> tuple[bool, bool]:
    """Whether the recipe runs the code, and whether a note says that it does not."""
    made = recipe(read(model), engine)
    flags = {setting.name for setting in made.arguments}
    return "--trust-remote-code" in flags, any("read the code first" in note for note in made.notes)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_catalogues_kimi_is_trusted_by_its_row(engine: str) -> None:
    assert trusts("kimi-k2.6", engine) == (True, False)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_strangers_tokenizer_code_is_told_and_not_run(engine: str, tmp_path: Path) -> None:
    assert trusts(bringing(tmp_path, "stranger", AutoTokenizer="tokenization.Theirs"), engine) == (False, True)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_artifact_without_code_is_not_given_leave(engine: str, tmp_path: Path) -> None:
    assert trusts(str(folder(tmp_path, "plain", "{{ messages }}")), engine) == (False, False)


def test_what_is_brought_is_in_the_record_and_bounded(tmp_path: Path) -> None:
    classes = {f"Auto{number}": "code.py" for number in range(100)} | {"\x1b]0;no\x07": "x", "A" * 80: "x"}
    brought = read(bringing(tmp_path, "many", **classes)).own_code
    assert brought is not None
    assert len(brought) == 16
    assert all(name.isidentifier() and len(name) <= 64 for name in brought)
    assert read("kimi-k2.6").own_code is None
