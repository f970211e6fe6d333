"""Every row of every kind: it loads, it validates, it has sources, and the verbs can show it."""

from __future__ import annotations

from itertools import pairwise

import pytest

from upright.base.errors import CatalogError
from upright.engines import OURS
from upright.facts import catalog
from upright.facts.catalog import loader
from upright.facts.catalog.explaining.names import engine_names
from upright.facts.catalog.rows.base import Fact, facts
from upright.models.deriving.catalogued import records

ROWS = [(kind, row.id) for kind in catalog.KINDS for row in catalog.rows(kind).values()]


@pytest.mark.parametrize(("kind", "name"), ROWS)
def test_every_row_has_sources_and_every_figure_too(kind: str, name: str) -> None:
    row = catalog.rows(kind)[name]
    assert row.sources
    assert all(source.strip() for source in row.sources)
    for figure in facts(row).values():
        assert isinstance(figure, Fact)
        assert figure.source.strip()


@pytest.mark.parametrize("kind", list(catalog.KINDS))
def test_a_row_without_a_source_is_refused(kind: str, tmp_path) -> None:
    file = tmp_path / f"{kind}.yaml"
    file.write_text("- id: bare\n  grade: A\n  sources: []\n")
    with pytest.raises(CatalogError) as caught:
        loader.rows_of_file(kind, file)
    assert "row bare" in caught.value.message
    assert str(file) in caught.value.message


def test_the_catalogue_has_what_people_ask_for() -> None:
    assert len(catalog.gpus()) >= 12
    for count, edition in [(n, e) for n in (1, 2, 4, 8) for e in ("workstation", "server", "max-q")]:
        assert catalog.box(f"{count}x-rtx-pro-6000-{edition}").gpu_count == count
    for name in ("1x-rtx-5090", "2x-rtx-5090", "8x-rtx-5090", "dgx-spark", "hgx-h200", "hgx-b200", "laptop"):
        assert catalog.box(name)


def test_artifacts_of_a_model_are_told_apart_by_name() -> None:
    for row in catalog.models():
        names = [record.name for record in records(row)]
        assert len(set(names)) == len(names), row.id


def test_device_names_belong_to_one_gpu_each() -> None:
    names = sorted(name.lower() for row in catalog.gpus() for name in row.device_names)
    assert all(a != b for a, b in pairwise(names))


@pytest.mark.parametrize("name", [row.id for row in catalog.boxes()])
def test_every_box_becomes_a_record(name: str) -> None:
    box = catalog.box_record(name)
    row = catalog.box(name)
    assert box.basis == "catalog"
    assert len(box.gpus) == row.gpu_count
    assert all(gpu.memory_bytes.value and gpu.memory_bytes.basis == "catalog" for gpu in box.gpus)


@pytest.mark.parametrize("name", [row.id for row in catalog.models()])
def test_shapes_reproduce_the_published_parameters(name: str) -> None:
    """The arithmetic of the shapes lands within 2 % of what the maker says: a mistyped width shows here."""
    row = catalog.model(name)
    if row.shape is None:
        pytest.skip("no shape known")
    shape = row.shape
    assert sum(kind.layers for kind in shape.attention) == shape.layers
    if any(kind.kind == "linear" for kind in shape.attention):
        pytest.skip("linear layers' projections are not in the row")
    total = 2 * shape.vocabulary_size * shape.hidden_size + _attention(shape) + _feed_forward(shape)
    assert total == pytest.approx(row.parameters.value, rel=0.02)


def _attention(shape) -> int:
    total = 0
    for kind in shape.attention:
        if kind.kind == "mla":
            width = kind.nope_head_dim + kind.rope_head_dim
            layer = shape.hidden_size * kind.q_lora_rank + kind.q_lora_rank * kind.heads * width
            layer += shape.hidden_size * (kind.kv_lora_rank + kind.rope_head_dim)
            layer += kind.kv_lora_rank * kind.heads * (kind.nope_head_dim + kind.value_head_dim)
            layer += kind.heads * kind.value_head_dim * shape.hidden_size
        else:
            layer = shape.hidden_size * (kind.heads + kind.kv_heads) * kind.key_head_dim
            layer += shape.hidden_size * (kind.heads + kind.kv_heads) * kind.value_head_dim
        total += kind.layers * layer
    return total


def _feed_forward(shape) -> int:
    experts = shape.experts
    moe_layers = shape.layers - experts.first_moe_layer
    dense = experts.first_moe_layer * 3 * shape.hidden_size * (shape.dense_ffn_size or 0)
    return dense + moe_layers * (experts.count + experts.shared) * 3 * shape.hidden_size * shape.expert_ffn_size


def test_rows_speak_of_engines_that_there_are() -> None:
    known = {*engine_names(), "any", "*"}
    named = {
        name
        for kind in ("flags", "compat", "images", "failures", "advisories", "overheads", "speeds")
        for row in catalog.rows(kind).values()
        for name in (getattr(row, "engine", None), *(getattr(row, "engines", None) or ()))
        if isinstance(name, str)
    }
    remedied = {remedy.engine for row in catalog.failures() for remedy in row.remedies if remedy.engine}
    assert named | remedied <= known
    assert {*OURS} <= known
