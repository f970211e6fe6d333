"""No plan breaks what must hold of every plan: a sample of what people type, and the whole crossing."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

import upright
from tests.accuracy.invariants import (
    INVARIANTS,
    MADE_UP,
    NAMED,
    OPTIONS,
    Asked,
    alike,
    artifacts,
    cache_within_memory,
    grown,
    longest_is_one,
    ranks_divide_heads,
    sample,
    tokens_by_way,
    violations,
    words,
)
from tests.conftest import TINY_FOLDER
from tests.sparse_models import K2_KEYS, k2_gguf_tensors, write_gguf
from upright.app.pages.plan_page import plan_page
from upright.facts import catalog
from upright.facts.catalog.rows.model import ModelRow
from upright.facts.records.model import Model
from upright.facts.records.plan import Goal, Plan
from upright.models.deriving.catalogue_models import records
from upright.models.reading.contradictions import contradictions
from upright.planning.choosing.configurations import Configurations
from upright.planning.requests.library import artifact_choice_for, box_record

SEED = 42


@pytest.fixture(scope="module")
def found() -> dict[str, list[str]]:
    return _found(sample(10, SEED))


@pytest.mark.parametrize("name", INVARIANTS)
def test_a_sample_breaks_no_invariant(name: str, found: dict[str, list[str]]) -> None:
    assert found[name] == []


@pytest.mark.slow
def test_a_larger_sample_breaks_no_invariant() -> None:
    assert _found(sample(500, SEED + 1)) == {name: [] for name in INVARIANTS}


@pytest.mark.slow
def test_the_whole_crossing_breaks_no_invariant() -> None:
    """Every model, box and option with every engine that loads one of its artifacts, as `recommend` plans them."""
    broken = [sentence for box in boxes() for model in catalog.rows("models") for sentence in _crossed(model, box)]
    assert broken == []


def test_sharing_never_holds_more_than_the_box() -> None:
    best = upright.plan("glm-4.7", "hgx-h200", engine="sglang", decode_context_parallel=4)[0]
    assert best.kv.bytes_per_token is not None
    assert best.kv.capacity_tokens * best.kv.bytes_per_token < 8 * 141 * 10**9


def test_two_ranks_hold_at_most_twice_the_tokens() -> None:
    one, two = (
        upright.plan("deepseek-v4-flash", "hgx-h200", engine="vllm", decode_context_parallel=ranks)[0]
        for ranks in (1, 2)
    )
    assert one.kv.capacity_tokens <= two.kv.capacity_tokens <= 2 * one.kv.capacity_tokens


@pytest.mark.parametrize("model", ["minimax-m2.7", "glm-4.7"])
def test_six_gpus_divide_eight_kv_heads_by_four_or_by_stages(model: str) -> None:
    plans = upright.plan(model, "6x-rtx-pro-6000-server")
    assert plans[0].fits
    assert {plan.parallel.tensor for plan in plans} <= {1, 2, 4}
    asked = upright.plan(model, "6x-rtx-pro-6000-server", engine="vllm", tensor_parallel=6)[0]
    assert "heads-not-divisible" in {objection.code for objection in asked.objections}
    assert "8 KV heads" in asked.objections[0].message


def test_the_page_says_one_longest_context() -> None:
    """Experts that fill the GPUs leave what was asked for; a longer context is had by moving them, up to one figure."""
    ram = grown(box_record("1x-rtx-pro-6000-workstation"), ram=0)
    figure = ram.memory_bytes.model_copy(update={"value": 768 * 2**30, "basis": "assumed", "source": "test"})
    box = ram.model_copy(update={"memory_bytes": figure, "memory_available_bytes": figure})
    plans = upright.plan("kimi-k2.6", box)
    best = plans[0]
    longest = max(rung.context_tokens for rung in best.rungs if rung.fits)
    assert best.largest_context_tokens == longest
    page = plan_page(plans, artifact_choice_for("kimi-k2.6"), 100)
    assert f"one user up to {longest:,}" in page
    assert "65,536 tokens, as planned: experts take the rest of the GPUs" in page


@pytest.mark.parametrize("asked", [
    Asked("llama-4-scout", "6x-rtx-pro-6000-server", "llama.cpp"),
    Asked("llama-4-scout", "1x-rtx-pro-6000-workstation", "llama.cpp", {"context_tokens": 131_072}),
    Asked("qwen3.5-397b-a17b", "2x-rtx-pro-6000-max-q-epyc-9175f", None, {"draft": True}),
], ids=str)  # fmt: skip
def test_one_longest_context_is_stated_and_holds(asked: Asked) -> None:
    plans = asked.plans()
    assert plans[0].fits
    assert list(longest_is_one(asked, plans)) == []


def _sparse(path: Path, **changes: Any) -> Model:
    """Kimi K2 with other claims in its header."""
    keys = {**K2_KEYS, **{f"deepseek2.{name}": value for name, value in changes.items()}}
    write_gguf(path, keys, k2_gguf_tensors("Q4_K", "Q4_K"))
    return upright.read(str(path))


def test_a_header_that_claims_more_layers_than_there_are_is_refused(tmp_path: Path) -> None:
    model = _sparse(tmp_path / "claims.gguf", block_count=400)
    best = upright.plan(model, "8x-rtx-pro-6000-server")[0]
    assert [objection.code for objection in best.objections] == ["tensors-missing"]
    assert "400 layers, and of 339 of them there is no tensor" in best.objections[0].message


@pytest.mark.parametrize("name", ["blk.0.attn_norm.weight", "output_norm.weight", "nobodys.weight"])
def test_eight_bytes_are_no_model(name: str, tmp_path: Path) -> None:
    write_gguf(tmp_path / "tiny.gguf", K2_KEYS, [(name, "F32", (2,))])
    best = upright.plan(upright.read(str(tmp_path / "tiny.gguf")), "8x-rtx-pro-6000-server")[0]
    assert [objection.code for objection in best.objections] == ["tensors-missing"]


@pytest.mark.parametrize(("change", "said"), [
    ({"block_count": 12}, "claims 12 layers, and there are tensors of 49 more"),
    ({"expert_count": 6144}, "its experts have"),
    ({"embedding_length": 7168 * 8}, "its embedding has"),
], ids=str)  # fmt: skip
def test_what_a_header_promises_is_held_against_its_tensors(change: dict[str, int], said: str, tmp_path: Path) -> None:
    """Before, each of these was planned as it was claimed."""
    model = _sparse(tmp_path / "claims.gguf", **change)
    best = upright.plan(model, "8x-rtx-pro-6000-server")[0]
    assert [objection.code for objection in best.objections] == ["tensors-missing"]
    assert said in best.objections[0].message


@pytest.mark.parametrize(("change", "said"), [
    ({"num_hidden_layers": 400}, "claims 400 layers, and of "),
    ({"vocab_size": 163_840, "hidden_size": 7168}, "and its embedding alone would have 1,174,405,120"),
], ids=str)  # fmt: skip
def test_safetensors_are_held_against_their_configuration(change: dict[str, int], said: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(TINY_FOLDER, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **change}))
    model = upright.read(str(folder))
    assert said in contradictions(model)[0]
    assert not upright.plan(model, "8x-rtx-pro-6000-server")[0].fits


def test_no_whole_model_contradicts_itself() -> None:
    """Every build of the catalogue, as its configuration derives it."""
    for row in cast("dict[str, ModelRow]", catalog.rows("models")).values():
        for model in records(row):
            assert contradictions(model.model_copy(update={"basis": "read"})) == (), model.name


def test_a_whole_file_is_planned(tmp_path: Path) -> None:
    best = upright.plan(_sparse(tmp_path / "whole.gguf"), "8x-rtx-pro-6000-server")[0]
    assert best.fits


def test_a_bound_that_fits_says_so(tmp_path: Path) -> None:
    """A key of the cache that nobody knows: counted with the most that layers can keep, and that fits."""
    model = _sparse(tmp_path / "strange.gguf", **{"attention.strange_window": 7})
    assert model.not_understood
    plans = upright.plan(model, "8x-rtx-pro-6000-server")
    assert plans[0].fits
    assert plans[0].not_understood
    assert plans[0].speed is None
    page = plan_page(plans, artifact_choice_for(model), 100)
    assert "fits" in page.splitlines()[0]
    assert "at least" in page
    small = upright.plan(model, "1x-rtx-5090")[0]
    assert not small.fits


def _found(cases: list[Asked]) -> dict[str, list[str]]:
    broken: dict[str, list[str]] = {name: [] for name in INVARIANTS}
    for asked in cases:
        for name, sentences in violations(asked).items():
            broken[name] += sentences
    return broken


def boxes() -> list[str]:
    """One of each kind: editions of a card with as much memory are planned alike."""
    kinds: dict[tuple[Any, ...], str] = {}
    for name in (*catalog.rows("boxes"), *MADE_UP):
        box = box_record(name)
        gpus = [(gpu.memory_bytes.value, gpu.compute_capability) for gpu in box.gpus]
        kinds.setdefault((len(gpus), *gpus[:1], box.memory_bytes.value), name)
    return list(kinds.values())


def _crossed(model: str, box: str) -> Iterator[str]:
    here, larger = (Configurations(one).of for one in (box_record(box), grown(box_record(box), gpu=2, ram=16)))
    by_format = {artifact.format: artifact for artifact in reversed(list(artifacts(model).values()))}
    for artifact, options in itertools.product(by_format.values(), OPTIONS):
        asked, plans = Asked(model, box, None, options), here(artifact, Goal(**options))
        yield from cache_within_memory(asked, plans)
        yield from ranks_divide_heads(asked, plans)
        if "decode_context_parallel" in options:
            yield from _shared(asked, plans, here(artifact, Goal(**{**options, "decode_context_parallel": 1})))
        if options not in OPTIONS[:3]:
            continue
        before, after = tokens_by_way(plans), tokens_by_way(larger(artifact, Goal(**options)))
        for way in before.keys() & after.keys():
            if any(few < many for few, many in zip(after[way], before[way], strict=True)):
                yield f"{asked}: {way}: with more memory {before[way]} become {after[way]}"


def _shared(asked: Asked, plans: list[Plan], alone: list[Plan]) -> Iterator[str]:
    ones: Mapping[tuple[Any, ...], Plan] = {alike(plan): plan for plan in alone}
    for plan in plans:
        one = ones.get(alike(plan))
        if one and plan.kv.capacity_tokens > plan.parallel.decode_context * one.kv.capacity_tokens:
            yield f"{asked}: {words(plan)}: {plan.kv.capacity_tokens:,} tokens, DCP 1 has {one.kv.capacity_tokens:,}"


def test_named_cases_are_in_the_sample() -> None:
    assert sample(0, SEED) == list(NAMED)
