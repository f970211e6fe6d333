"""A GGUF that nobody named, by its type: its size beside the files that were published."""

from __future__ import annotations

import pytest

from upright.facts import catalog
from upright.facts.catalog.rows.model import Artifact, ModelRow
from upright.models.deriving.catalogue_models import record
from upright.models.deriving.typed_gguf import gguf_of_type
from upright.planning.memory.file_sizes import SMALLEST, largest_size, smallest_size


def _published() -> list[tuple[ModelRow, Artifact]]:
    """But for a file that is not what its type says, as its row tells: experts as they were trained, other weights."""
    return [
        (row, artifact)
        for row in catalog.models()
        for artifact in row.artifacts
        if artifact.format == "gguf"
        and artifact.size_bytes.value
        and "lossless" not in artifact.scheme
        and artifact.other_bits is None
        and gguf_of_type(row, f"{row.id}:{artifact.quant}")
    ]


def test_there_are_files_to_hold_it_against() -> None:
    assert len(_published()) >= 40


@pytest.mark.parametrize(("row", "artifact"), _published(), ids=lambda part: getattr(part, "quant", None) or part.id)
def test_sizes_by_type_are_as_near_to_published_files_as_the_note_says(row: ModelRow, artifact: Artifact) -> None:
    model = gguf_of_type(row, f"{row.id}:{artifact.quant}")
    assert model is not None
    published = artifact.size_bytes.value
    assert published
    ratio = published / sum(line.bytes for line in model.weights)
    assert smallest_size(model) <= ratio <= largest_size(model)


def test_types_are_spelled_as_people_spell_them() -> None:
    row = catalog.model("glm-4.7")
    model, shouted = gguf_of_type(row, "glm-4.7:iq4_xs"), gguf_of_type(row, "GLM-4.7:IQ4_XS")
    assert model is not None
    assert shouted is not None
    assert model.weights == shouted.weights
    assert (model.name, model.basis, model.ik_only) == ("GLM-4.7:IQ4_XS", "derived", False)


@pytest.mark.parametrize("quant", ["IQ4_KS", "IQ2_K_R4", "Q4_K_M_R4"])
def test_what_mainline_refuses_is_for_the_fork_alone(quant: str) -> None:
    model = gguf_of_type(catalog.model("deepseek-r1"), f"deepseek-r1:{quant}")
    assert model is not None
    assert model.ik_only


@pytest.mark.parametrize("quant", ["", "Q9", "NVFP4", "FP8", "BF16", "_R4", "../x"])
def test_what_is_no_type_is_none(quant: str) -> None:
    assert gguf_of_type(catalog.model("glm-4.7"), f"glm-4.7:{quant}") is None


def test_every_model_whose_shapes_are_known_has_every_type() -> None:
    sized = [row for row in catalog.models() if gguf_of_type(row, f"{row.id}:Q4_K_M") is None]
    assert [row.id for row in sized if row.shape or row.configuration] == []


# Bytes of files whose rows are not whole blocks of 256, in GB, as published: bartowski's builds by
# https://github.com/OpenWhispr/openwhispr/pull/572, Google's own in Q4_0 by
# https://huggingface.co/steampunque/gemma-4-26B-A4B-it-qat-q4_0-unquantized-MP-GGUF, Ollama's library by
# https://kgptalkie.com/local-llms-2026-technical-reference-guide.
_UNEVEN = {
    "gemma-4-26b-a4b:Q4_K_M": 17.0,
    "gemma-4-26b-a4b:Q4_0": 14.4,
    "gemma-4-31b:Q4_K_M": 19.6,
    "nemotron-3-nano-30b-a3b:Q4_K_M": 24.0,
}


@pytest.mark.parametrize("name", _UNEVEN)
def test_rows_that_are_not_whole_blocks_are_stored_in_another_type(name: str) -> None:
    """By the bits of the type alone Nemotron 3 Nano was planned with 19.1 GB of its 24, and said to fit 24 GB GPUs."""
    model = gguf_of_type(catalog.model(name.partition(":")[0]), name)
    assert model is not None
    assert SMALLEST <= 1e9 * _UNEVEN[name] / model.tensor_bytes <= largest_size(model)


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("qwen3-30b-a3b:Q4_K_M", "4.84 bits"),  # 2,048 and 768: whole blocks
        ("glm-4.5-air:Q4_K_M", "5.33 bits"),  # 4,096 and 1,408: down projections are Q5_0 and Q8_0
        ("gemma-4-26b-a4b:IQ4_XS", "4.33 bits"),  # 2,816 and 704: down projections are IQ4_NL
        ("nemotron-3-nano-30b-a3b:Q6_K", "8.5 bits"),  # 2,688 and 1,856: everything is Q8_0
        ("nemotron-3-nano-30b-a3b:Q8_0", "8.5 bits"),  # blocks of 32
        ("gpt-oss-20b:Q4_K_M", "4.25 bits"),  # trained in MXFP4
    ],
)
def test_bits_of_experts_by_the_length_of_their_rows(name: str, bits: str) -> None:
    model = gguf_of_type(catalog.model(name.partition(":")[0]), name)
    assert model is not None
    assert {line.dtype for line in model.weights if line.group == "routed_experts"} == {bits}


@pytest.mark.parametrize("quant", ["UD-Q4_K_XL", "UD-IQ2_XXS", "Q8_0"])
def test_a_published_size_is_the_size_of_the_record_and_recurrent_layers_have_weights(quant: str) -> None:
    row = catalog.model("qwen3.5-397b-a17b")
    artifact = next(found for found in row.artifacts if found.quant == quant)
    model = record(row, artifact)
    assert model is not None
    assert artifact.size_bytes.value
    assert model.basis == "catalog"
    assert model.tensor_bytes == pytest.approx(artifact.size_bytes.value, rel=1e-6)
    assert all(any(line.group == "attention" and line.layer == layer for line in model.weights) for layer in range(60))


def test_a_file_without_the_indexer_is_planned_dense() -> None:
    row = catalog.model("deepseek-v3.2")
    files = [record(row, artifact) for artifact in row.artifacts if artifact.format == "gguf"]
    assert files
    assert {model.architecture.name for model in files if model} == {"DeepseekV3ForCausalLM"}


def test_an_architecture_that_mainline_lacks_is_for_the_fork_alone() -> None:
    row = catalog.model("glm-5.3-flash")
    files = [model for artifact in row.artifacts if artifact.format == "gguf" and (model := record(row, artifact))]
    assert files
    assert all(model.ik_only for model in files)
