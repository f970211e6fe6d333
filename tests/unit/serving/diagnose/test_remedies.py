"""A remedy is an edit of a recipe: pure, one thing at a time, None where nothing would change."""

from __future__ import annotations

import re

import pytest

from tests.golden.deployments import recipe
from upright.facts import catalog
from upright.facts.catalog.rows.failure import FailureRow
from upright.facts.records.diagnosis import Remedy
from upright.facts.records.recipe import Recipe
from upright.serving.diagnose import apply_remedy
from upright.serving.diagnose.remedies import OF_ANOTHER, fill_placeholders, remedies_for_line, spellings

_PLACE = re.compile(r"\{(\w+)\}")
VLLM, LLAMA = recipe("kimi-k26-vllm"), recipe("kimi-k26-ik-llama")


def _named(row: FailureRow) -> set[str]:
    """Words of a line that the row's own sentences have a place for."""
    return set(_PLACE.findall(f"{row.title} {row.cause}")) & set(re.compile(row.pattern).groupindex)


def remedy(do: str, name: str | None = None, value: str | None = None, engine: str | None = None) -> Remedy:
    return Remedy.model_validate({"do": do, "name": name, "value": value, "engine": engine, "why": "it helps"})


def value(made: Recipe | None, *names: str) -> str | None:
    assert made is not None
    return next((each.value for each in made.arguments if each.name in names), None)


def test_a_flag_is_set_where_it_stood_or_at_the_end():
    made = apply_remedy(VLLM, remedy("set_flag", "--kv-cache-dtype", "auto"))
    assert value(made, "--kv-cache-dtype") == "auto"
    assert made is not None
    assert len(made.arguments) == len(VLLM.arguments)
    made = apply_remedy(VLLM, remedy("set_flag", "--enforce-eager"))
    assert made is not None
    assert made.arguments[-1].name == "--enforce-eager"
    assert made.arguments[-1].reason == "it helps"


def test_what_is_so_already_is_no_change():
    made = apply_remedy(VLLM, remedy("set_flag", "--kv-cache-dtype", "auto"))
    assert made is not None
    assert apply_remedy(made, remedy("set_flag", "--kv-cache-dtype", "auto")) is None
    assert apply_remedy(VLLM, remedy("unset_flag", "--no-such-flag")) is None


def test_a_flag_is_found_by_its_other_spelling():
    assert set(spellings("llama.cpp", "-c")) >= {"-c", "--ctx-size"}
    before = int(value(LLAMA, "--ctx-size") or 0)
    made = apply_remedy(LLAMA, remedy("lower_flag", "-c"))
    assert value(made, "--ctx-size") == str(before // 2)
    assert made is not None
    assert made.context_tokens == LLAMA.context_tokens // 2


@pytest.mark.parametrize(("do", "expected"), [("lower_flag", -0.03), ("raise_flag", 0.03)])
def test_a_fraction_moves_by_a_small_step(do: str, expected: float):
    before = float(value(VLLM, "--gpu-memory-utilization") or 0)
    made = apply_remedy(VLLM, remedy(do, "--gpu-memory-utilization"))
    assert float(value(made, "--gpu-memory-utilization") or 0) == pytest.approx(before + expected)


def test_a_value_that_is_no_step_in_that_direction_is_refused():
    assert apply_remedy(VLLM, remedy("lower_flag", "--gpu-memory-utilization", "0.99")) is None
    assert apply_remedy(VLLM, remedy("raise_flag", "--tensor-parallel-size", "1")) is None


def test_it_ends_at_a_floor():
    made: Recipe | None = LLAMA
    for _ in range(20):
        lower = apply_remedy(made, remedy("lower_flag", "-c")) if made else None
        if lower is None:
            break
        made = lower
    assert int(value(made, "--ctx-size") or 0) >= 512


def test_variables_are_set_and_taken_out():
    made = apply_remedy(VLLM, remedy("set_env", "NCCL_P2P_DISABLE", "1"))
    assert made is not None
    assert {each.name: each.value for each in made.environment}["NCCL_P2P_DISABLE"] == "1"
    back = apply_remedy(made, remedy("unset_env", "NCCL_P2P_DISABLE"))
    assert back is not None
    assert back.environment == tuple(each for each in VLLM.environment if each.name != "NCCL_P2P_DISABLE")


def test_another_port_needs_one_that_is_free():
    assert apply_remedy(VLLM, remedy("other_port")) is None
    made = apply_remedy(VLLM, remedy("other_port"), free_port=4711)
    assert value(made, "--port") == "4711"
    assert made is not None
    assert made.base_url.endswith(":4711")


def test_the_value_of_another_flag():
    made = apply_remedy(LLAMA, remedy("set_flag", "-ctv", "the value of -ctk"))
    assert value(made, "--cache-type-v", "-ctv") == value(LLAMA, "--cache-type-k", "-ctk")
    assert apply_remedy(LLAMA, remedy("set_flag", "-ctv", "the value of --no-such-flag")) is None


def test_every_value_of_the_catalogue_is_one_that_an_engine_can_read():
    edits = [
        (row.id, each.value.removeprefix(OF_ANOTHER))
        for row in catalog.failures()
        for each in row.remedies
        if each.do in ("set_flag", "set_env") and each.value is not None
    ]
    assert len(edits) > 20
    assert [edit for edit in edits if " " in edit[1] and not edit[1].startswith("{")] == []


@pytest.mark.parametrize("do", ["by_hand", "use_artifact"])
def test_what_a_person_must_do_is_no_edit(do: str):
    assert apply_remedy(VLLM, remedy(do)) is None


def test_a_remedy_of_another_engine_is_not_applied():
    assert apply_remedy(VLLM, remedy("set_env", "A", "1", engine="sglang")) is None


def test_the_recipe_itself_is_never_changed():
    before = VLLM.digest
    apply_remedy(VLLM, remedy("unset_flag", "--port"))
    assert VLLM.digest == before


def test_words_of_the_line_fill_the_remedy():
    given = (remedy("unset_flag", "{flag}"), remedy("set_flag", "--x", "{nobody}"), remedy("by_hand", engine="sglang"))
    (made,) = remedies_for_line(given, "vllm", {"flag": "-mla"})
    assert made.name == "-mla"


@pytest.mark.parametrize("row", [row for row in catalog.failures() if _named(row)], ids=lambda row: row.id)
def test_no_place_of_a_word_is_shown_that_the_line_does_not_name(row: FailureRow) -> None:
    for seen in row.seen:
        for match in filter(None, (re.search(row.pattern, line) for line in seen.line.split("\n"))):
            words = {name: word for name, word in match.groupdict().items() if word}
            for text in (row.title, row.cause):
                assert not set(_PLACE.findall(fill_placeholders(text, words))) & _named(row), (text, match[0])
