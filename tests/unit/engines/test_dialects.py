"""Parsers follow from an artifact's own files: never from its folder or repository, and with the reason said."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import cast

import pytest
from click.testing import CliRunner

from tests.conftest import TINY_FOLDER, TINY_MODEL
from upright.app.cli.main import cli
from upright.facts import catalog
from upright.facts.catalog.rows.dialect import DialectRow
from upright.facts.catalog.rows.model import ModelRow
from upright.facts.records.model import Model
from upright.facts.records.plan import Goal
from upright.facts.records.recipe import Recipe
from upright.models.reading import read
from upright.models.reading.artifact import marks_in
from upright.planning.choosing import plan
from upright.planning.rendering import render
from upright.planning.rendering.recipe import RenderOptions

FLAGS = ("--enable-auto-tool-choice", "--tool-call-parser", "--reasoning-parser")
NAMES = ("tiny-k2", "Kimi-K2-Instruct", "DeepSeek-V3.1", "Kimi-K2.6")


def recipe(model: Model, engine: str) -> Recipe:
    box = catalog.box_record("hgx-b200")
    made = plan(box, model, Goal(engine=engine, context_tokens=4096))[0]
    return render(made, model, box, model_path="weights", port=8000, wishes=RenderOptions(must_be_installed=False))


def told(made: Recipe) -> dict[str, tuple[str | None, str]]:
    return {setting.name: (setting.value, setting.reason) for setting in made.arguments if setting.name in FLAGS}


def folder(parent: Path, name: str, template: str | None = None) -> Path:
    """The tiny model in a folder of that name; with another template if one is given."""
    shutil.copytree(TINY_FOLDER, parent / name)
    if template is not None:
        (parent / name / "chat_template.jinja").write_text(template)
    return parent / name


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_same_files_get_the_same_parsers_in_every_folder(engine: str, tmp_path: Path) -> None:
    answers = [told(recipe(read(str(folder(tmp_path, name))), engine)) for name in NAMES]
    assert all(answer == answers[0] for answer in answers)
    assert answers[0]["--tool-call-parser"][0] == "kimi_k2"
    assert answers[0]["--reasoning-parser"][0] == "kimi_k2"
    assert "its chat template has <|tool_calls_section_begin|>" in answers[0]["--tool-call-parser"][1]


@pytest.mark.parametrize("name", NAMES)
def test_other_files_get_other_parsers_whatever_the_folder_is_called(name: str, tmp_path: Path) -> None:
    without_thinking = "{{ tools }}<|tool_calls_section_begin|>"
    made = recipe(read(str(folder(tmp_path, name, without_thinking))), "vllm")
    assert told(made)["--tool-call-parser"][0] == "kimi_k2"
    assert "--reasoning-parser" not in told(made)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("engine", "happens"), [("vllm", "with 400"), ("sglang", "in its text")])
def test_a_template_that_nobody_knows_is_said_with_what_to_try(
    name: str, engine: str, happens: str, tmp_path: Path
) -> None:
    made = recipe(read(str(folder(tmp_path, name, "{{ messages }}"))), engine)
    assert not told(made)
    note = next(note for note in made.notes if note.startswith("Agents will not work"))
    assert happens in note
    assert "DeepseekV3ForCausalLM" in note
    assert "--tool-call-parser" in note


def test_a_folder_without_template_and_settings_has_no_parsers(tmp_path: Path) -> None:
    bare = folder(tmp_path, "Kimi-K2-Instruct")
    (bare / "chat_template.jinja").unlink()
    (bare / "tokenizer_config.json").unlink()
    model = read(str(bare))
    assert (model.chat_template, model.dialogue_marks) == (None, None)
    assert any("without a chat template" in note for note in recipe(model, "vllm").notes)


def test_special_tokens_and_named_templates_count_too(tmp_path: Path) -> None:
    tokens = folder(tmp_path, "tokens", "{{ messages }}")
    (tokens / "tokenizer_config.json").write_text(
        '{"added_tokens_decoder": {"7": {"content": "<|tool_calls_section_begin|>"}, "8": 3},'
        ' "additional_special_tokens": ["<think>", {"content": "</think>"}],'
        ' "chat_template": [{"name": "tool_use", "template": "{{ tools }}"}, 3]}'
    )
    assert set(read(str(tokens)).dialogue_marks or ()) == {"tools", "<|tool_calls_section_begin|>", "</think>"}


def test_what_was_not_read_is_what_the_catalogue_says_of_its_name() -> None:
    model = read("kimi-k2.6")
    assert model.basis != "read"
    value, reason = told(recipe(model, "vllm"))["--tool-call-parser"]
    assert value == "kimi_k2"
    assert "the catalogue's row" in reason


def test_a_row_of_ones_own_goes_before_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from upright.planning.rendering import recipe as rendering

    row = catalog.model("kimi-k2.6").model_copy(update={"owner": "user"})
    own = row.parsers["vllm"].model_copy(update={"tool": "mine", "reasoning": None})
    monkeypatch.setattr(rendering, "row_of", lambda _: row.model_copy(update={"parsers": {"vllm": own}}))
    answer = told(recipe(read(str(folder(tmp_path, "any"))), "vllm"))
    assert answer["--tool-call-parser"][0] == "mine"
    assert "--reasoning-parser" not in answer


def test_a_gguf_says_whether_its_template_knows_tools() -> None:
    model = read(str(TINY_MODEL))
    assert model.dialogue_marks is not None
    assert {"tools", "<|tool_calls_section_begin|>"} <= set(model.dialogue_marks)
    assert not any("Agents" in note for note in recipe(model, "llama.cpp").notes)
    mute = model.model_copy(update={"dialogue_marks": ()})
    assert any("does not mention tools" in note for note in recipe(mute, "llama.cpp").notes)
    bare = model.model_copy(update={"dialogue_marks": None, "chat_template": False})
    assert any("brings no chat template" in note for note in recipe(bare, "llama.cpp").notes)


TEMPLATES = {
    "<|open|>{{ tag }}<|sep|> <|close|>": ("kimi-k3", "kimi_k3", "kimi_k3"),
    "<｜tool▁calls▁begin｜> ```json </think>": ("deepseek-v3", "deepseek_v3", "deepseek_r1"),
    "<｜tool▁calls▁begin｜> ```json": ("deepseek-v3", "deepseek_v3", None),
    "<｜tool▁calls▁begin｜> </think>": ("deepseek-v3.1", "deepseek_v31", "deepseek_v3"),
    "<tool_call>{function-name}<arg_key>{arg-key-1}</arg_key> </think>": ("glm-4.7", "glm47", "glm45"),
    "<tool_call>{function-name}\n<arg_key> </think>": ("glm-4.5", "glm45", "glm45"),
    "<tool_call>\n<function=example> </think>": ("qwen3-coder", "qwen3_coder", "qwen3"),
    "<tool_call>\n<function=example>": ("qwen3-coder", "qwen3_coder", None),
    '<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}': ("qwen-json", "hermes", None),
    '<tool_call>\n{"name": <function-name>}': ("hermes", "hermes", None),
    "<|start|>assistant<|channel|>": ("gpt-oss", "openai", "openai_gptoss"),
    "<minimax:tool_call> </think>": ("minimax-m2", "minimax_m2", "minimax_m2"),
    "[TOOL_CALLS]": ("mistral", "mistral", None),
    "<|python_tag|>": ("llama-3", "llama3_json", None),
}


@pytest.mark.parametrize(("template", "known"), TEMPLATES.items())
def test_each_dialect_is_told_by_its_marks(template: str, known: tuple[str, str, str | None]) -> None:
    marks = frozenset(marks_in([template]))
    rows = [row for row in catalog.rows("dialects").values() if isinstance(row, DialectRow)]
    row = next(row for row in rows if row.fits("SomeForCausalLM", marks))
    parsers = row.parsers_of("vllm", marks)
    assert parsers is not None
    assert (row.id, parsers.tool, parsers.reasoning) == known


def test_a_dialect_that_would_fit_everything_is_refused() -> None:
    row = next(iter(catalog.rows("dialects").values())).model_dump()
    with pytest.raises(ValueError, match="would fit every model"):
        DialectRow.model_validate({**row, "marks": (), "architectures": ()})


@pytest.mark.parametrize("row", [row for row in catalog.models() if row.parsers], ids=lambda row: row.id)
def test_a_models_parser_is_one_that_a_dialect_names(row: ModelRow) -> None:
    dialects = cast("list[DialectRow]", list(catalog.rows("dialects").values()))
    for engine, parsers in row.parsers.items():
        assert not parsers.tool or parsers.tool in {
            dialect.parsers[engine].tool for dialect in dialects if engine in dialect.parsers
        }


@pytest.mark.parametrize("name", ["minimax-m3", "gemma-4-31b", "nemotron-3-super-120b-a12b", "qwen3-coder-30b-a3b"])
def test_agents_work_on_a_model_whose_template_was_seen(name: str) -> None:
    done = CliRunner().invoke(cli, ["render", name, "--box", "hgx-h200", "--engine", "vllm"])
    assert "--enable-auto-tool-choice" in done.stdout
    assert "--tool-call-parser" in done.stdout


def test_what_was_not_read_is_not_said_to_fail() -> None:
    done = CliRunner().invoke(cli, ["render", "llama-4-scout", "--box", "hgx-h200", "--engine", "vllm"])
    assert "Agents may not work" in done.stderr
    assert "Agents will not work" not in done.stderr
