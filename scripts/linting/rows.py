"""Rows of the catalogue -> what is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from upright.engines import OURS
from upright.facts import catalog
from upright.facts.catalog.explaining.names import engine_names
from upright.facts.catalog.recorded_flags import recorded_versions, versions_taking
from upright.facts.catalog.rows.base import Fact, Row, facts
from upright.facts.catalog.rows.failure import FailureRow
from upright.facts.catalog.rows.model import ModelRow, ModelShape
from upright.facts.catalog.sister_releases import artifacts_of, releases
from upright.models.deriving.catalogue_models import record, records
from upright.models.reading.rows import catalogue_file as named_rows
from upright.models.reading.rows import row_files
from upright.models.reading.tensor_names import families, family_of, gguf_classifier, hf_classifier
from upright.planning.memory.kvcache import cache_shape
from upright.planning.memory.layouts import Storage
from upright.serving.diagnose.scan import matching_rows

HEALTHY = Path(__file__).resolve().parents[2] / "tests/recordings/logs/healthy"
_LAYERS = {"deepseek-v3": 61, "kimi-k2": 61, "deepseek-v32": 61, "glm4-moe": 92, "glm-dsa": 78}
_TOLERANCE = 0.02
"""Of a shape's parameters against what the maker says: a mistyped width shows."""


def faults() -> Iterator[str]:
    for kind in catalog.KINDS:
        for row in catalog.rows(kind).values():
            yield from (f"{kind} {row.id}: {fault}" for fault in unsourced(row))
    yield from boxes()
    for model in catalog.models():
        yield from (f"models {model.id}: {fault}" for check in MODEL_CHECKS for fault in check(model))
    yield from device_names()
    yield from unknown_engines()
    yield from failures(catalog.failures())
    yield from tensor_names()


def unsourced(row: Row) -> Iterator[str]:
    if not row.sources or not all(source.strip() for source in row.sources):
        yield "has no source"
    for name, figure in facts(row).items():
        if not isinstance(figure, Fact) or not figure.source.strip():
            yield f"{name} has no source"


def boxes() -> Iterator[str]:
    for row in catalog.boxes():
        box = catalog.box_record(row.id)
        if len(box.gpus) != row.gpu_count:
            yield f"boxes {row.id}: {len(box.gpus)} GPUs in its record, {row.gpu_count} in the row"
        if not all(gpu.memory_bytes.value and gpu.memory_bytes.basis == "catalog" for gpu in box.gpus):
            yield f"boxes {row.id}: a GPU has no memory"


def device_names() -> Iterator[str]:
    names = sorted((name.lower(), row.id) for row in catalog.gpus() for name in row.device_names)
    for (name, one), (other, two) in pairwise(names):
        if name == other:
            yield f"gpus {one} and {two}: both are called {name!r}"


def told_apart(row: ModelRow) -> Iterator[str]:
    names = [made.name for made in records(row)]
    yield from (f"two artifacts are called {name}" for name in {name for name in names if names.count(name) > 1})


def first_is_the_makers(row: ModelRow) -> Iterator[str]:
    maker = row.repository.partition("/")[0]
    if row.artifacts[0].repository.partition("/")[0] != maker:
        yield "its first artifact is not the maker's own"
    for release in releases(row):
        if artifacts_of(row, release)[0].repository.partition("/")[0] != maker:
            yield f"{release} has no artifact of the maker's"


def sized(row: ModelRow) -> Iterator[str]:
    for artifact in row.artifacts:
        model = record(row, artifact)
        if model is None:
            if not artifact.size_bytes.note:
                yield f"{artifact.repository} has no size, and no note says why"
        elif model.not_understood or model.tensor_bytes <= 0:
            yield f"{artifact.repository} is not understood: {', '.join(model.not_understood)}"
        elif cache_shape(model.architecture, "bf16", storage=Storage(artifact.engines[0])).bytes_per_token <= 0:
            yield f"{artifact.repository} has no bytes a token"


def shape_fits(row: ModelRow) -> Iterator[str]:
    """The arithmetic of the shape lands where the maker says."""
    shape = row.shape
    if shape is None:
        return
    if sum(kind.layers for kind in shape.attention) != shape.layers:
        yield "its kinds of attention do not add up to its layers"
    if any(kind.kind == "linear" for kind in shape.attention):
        return  # linear layers' projections are not in the row
    total = 2 * shape.vocabulary_size * shape.hidden_size + _attention(shape) + _feed_forward(shape)
    published = row.parameters.value
    if not published or abs(total - published) > _TOLERANCE * published:
        yield f"its shape has {total:,} parameters, its maker says {published}"


def looked_up(model: ModelRow) -> Iterator[str]:
    for artifact in model.artifacts:
        if "not looked up" in (artifact.size_bytes.note or ""):
            yield f"{artifact.repository}: a name that nobody looked up may be nobody's"


MODEL_CHECKS: tuple[Callable[[ModelRow], Iterator[str]], ...] = (
    told_apart, first_is_the_makers, sized, shape_fits, looked_up,
)  # fmt: skip


def unknown_engines() -> Iterator[str]:
    known = {*engine_names(), "any", "*"}
    for kind in ("flags", "compat", "images", "failures", "advisories", "overheads", "speeds"):
        for row in catalog.rows(kind).values():
            for name in (getattr(row, "engine", None), *(getattr(row, "engines", None) or ())):
                if isinstance(name, str) and name not in known:
                    yield f"{kind} {row.id}: no engine is called {name}"
    for failure in catalog.failures():
        for remedy in failure.remedies:
            if remedy.engine and remedy.engine not in known:
                yield f"failures {failure.id}: no engine is called {remedy.engine}"
    yield from (f"engine {name} has no name in the catalogue" for name in OURS if name not in known)


def failures(rows: Sequence[FailureRow]) -> Iterator[str]:
    """Each real line belongs to one row and one only, and healthy logs to none that alarms."""
    frames = [row for row in rows if row.where == "frame"]
    lines = [row for row in rows if row.where not in ("evidence", "frame", "words", "part")]
    for row in rows:
        yield from (f"failures {row.id}: {fault}" for fault in (*_misplaced(row, frames, lines), *_flags_unknown(row)))
    for file in sorted(HEALTHY.glob("*.log")):
        for line in filter(str.strip, file.read_text().splitlines()):
            for claimant in matching_rows(line, lines):
                if claimant.alarms:
                    yield f"failures {claimant.id}: alarms at a healthy line of {file.stem}: {line[:100]}"


def _misplaced(row: FailureRow, frames: list[FailureRow], lines: list[FailureRow]) -> Iterator[str]:
    if row.seen == "none" or row.where in ("evidence", "words", "part"):
        return
    for seen in row.seen:
        if row.where == "frame":
            claimants = [next((other for other in frames if other.matches(seen.line)), None)]
        else:
            claimants = list(matching_rows(seen.line, lines))
            if len(claimants) > 1 and all(other and other.beside for other in claimants):
                claimants = [other for other in claimants if other and re.search(other.beside or "", seen.beside or "")]
        if claimants != [row]:
            yield f"{seen.line[:80]!r} belongs to {[other.id if other else None for other in claimants]}"


def _flags_unknown(row: FailureRow) -> Iterator[str]:
    """A remedy is a change of a recipe: a flag that no recorded version takes would be refused at start."""
    for remedy in row.remedies:
        if remedy.do.endswith("_flag") and "{" not in (remedy.name or ""):
            engines = [remedy.engine] if remedy.engine else [engine for engine in row.engines if engine != "any"]
            for engine in engines:
                if recorded_versions(engine) and not versions_taking(engine, remedy.name or ""):
                    yield f"no recorded version of {engine} takes {remedy.name}"


def tensor_names() -> Iterator[str]:
    """Rows that map tensor names know the real names that they list, and put them where they say."""
    for path in (*row_files("families"), "hf_names.yaml", "gguf_names.yaml"):
        row = named_rows(path)
        name = row.get("id")
        namer = (
            gguf_classifier(None)
            if path == "gguf_names.yaml"
            else hf_classifier(families().get(name), _LAYERS.get(name))
        )
        if not row["seen"]:
            yield f"{path}: lists no real names"
        for entry in row["seen"]:
            place = namer.place(entry["name"])
            if (place.group, place.layer, place.known) != (entry["group"], entry["layer"], True):
                yield f"{path}: {entry['name']} is placed as {place}"
    for path in row_files("families"):
        row = named_rows(path)
        if not row["sources"] or path != f"families/{row['id']}.yaml":
            yield f"{path}: has no source, or another name than its file"
        for name in (*row["hf_architectures"], *row["gguf_architectures"]):
            family = family_of(name)
            if family is None or family.id != row["id"]:
                yield f"{path}: {name} belongs to {family.id if family else None}"


def _attention(shape: ModelShape) -> int:
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


def _feed_forward(shape: ModelShape) -> int:
    experts = shape.experts
    moe_layers = shape.layers - experts.first_moe_layer
    dense = experts.first_moe_layer * 3 * shape.hidden_size * (shape.dense_ffn_size or 0)
    return dense + moe_layers * (experts.count + experts.shared) * 3 * shape.hidden_size * shape.expert_ffn_size
