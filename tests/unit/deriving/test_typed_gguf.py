"""A GGUF that nobody named, by its type: its size beside the files that were published."""

from __future__ import annotations

import pytest

from upright import catalog
from upright.catalog.rows.model import Artifact, ModelRow
from upright.deriving.typed_gguf import of_type


def _published() -> list[tuple[ModelRow, Artifact]]:
    """But for a file that keeps the native experts as they are, whatever its type: its row has its size."""
    return [
        (row, artifact)
        for row in catalog.models()
        for artifact in row.artifacts
        if artifact.format == "gguf"
        and artifact.size_bytes.value
        and "lossless" not in artifact.scheme
        and of_type(row, f"{row.id}:{artifact.quant}")
    ]


def test_there_are_files_to_hold_it_against() -> None:
    assert len(_published()) >= 11


@pytest.mark.parametrize(("row", "artifact"), _published(), ids=lambda part: getattr(part, "quant", None) or part.id)
def test_sizes_by_type_are_as_near_to_published_files_as_the_note_says(row: ModelRow, artifact: Artifact) -> None:
    model = of_type(row, f"{row.id}:{artifact.quant}")
    assert model is not None
    published = artifact.size_bytes.value
    assert published
    ratio = published / sum(line.bytes for line in model.weights)
    assert 0.88 <= ratio <= 1.055


def test_types_are_spelled_as_people_spell_them() -> None:
    row = catalog.model("glm-4.7")
    model, shouted = of_type(row, "glm-4.7:iq4_xs"), of_type(row, "GLM-4.7:IQ4_XS")
    assert model is not None
    assert shouted is not None
    assert model.weights == shouted.weights
    assert (model.name, model.basis, model.ik_only) == ("GLM-4.7:IQ4_XS", "derived", False)


@pytest.mark.parametrize("quant", ["IQ4_KS", "IQ2_K_R4", "Q4_K_M_R4"])
def test_what_mainline_refuses_is_for_the_fork_alone(quant: str) -> None:
    model = of_type(catalog.model("deepseek-r1"), f"deepseek-r1:{quant}")
    assert model is not None
    assert model.ik_only


@pytest.mark.parametrize("quant", ["", "Q9", "NVFP4", "FP8", "BF16", "_R4", "../x"])
def test_what_is_no_type_is_none(quant: str) -> None:
    assert of_type(catalog.model("glm-4.7"), f"glm-4.7:{quant}") is None


def test_every_model_whose_shapes_are_known_has_every_type() -> None:
    sized = [row for row in catalog.models() if of_type(row, f"{row.id}:Q4_K_M") is None]
    assert [row.id for row in sized if row.shape or row.configuration] == []
