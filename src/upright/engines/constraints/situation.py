"""Plan + Model + Box, or a Recipe -> a situation: facts by name that constraints are held against.

What is settled by box, model and build are circumstances, which a recipe carries along; what is set is read from the
plan, or from the recipe's own flags, so that a flag that somebody changed by hand is judged as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from upright.engines import engine_named
from upright.engines.dialects import never_thinks
from upright.engines.facets.spread import Ranks
from upright.facts.catalog import find, find_image
from upright.facts.catalog.model_records import row_of
from upright.facts.catalog.recorded_flags import recorded_versions
from upright.facts.catalog.rows.hardware import GpuRow
from upright.facts.records.box import Box
from upright.facts.records.model import (
    Attention,
    CompressedAttention,
    GqaAttention,
    LinearAttention,
    MlaAttention,
    Model,
)
from upright.facts.records.plan import Parallel
from upright.facts.records.recipe import AttentionName, Circumstances, Recipe, Setting, ThinkingDefault, WeightFormat

Scalar = str | int | float | bool | frozenset[str] | None
_SPELLINGS = {"bfloat16": "bf16", "float16": "f16", "half": "f16"}
_FORMATS: tuple[tuple[str, WeightFormat], ...] = (
    (r"GGUF", "gguf"),
    (r"FP8_B(\d+)|FP8.*?BLOCKS OF (\d+)", "fp8-block"),
    (r"NVFP4", "nvfp4"),
    (r"MXFP4", "mxfp4"),
    (r"AWQ(?:_INT\d+_G(\d+))?", "awq"),
    (r"GPTQ(?:_INT\d+_G(\d+))?", "gptq"),
    (r"INT4(?:_G(\d+)|.*?GROUPS OF (\d+))?", "int4"),
    (r"INT8", "int8"),
    (r"FP8|F8_", "fp8"),
    (r"BF16|F16|F32", "bf16"),
)
_GROUPS = {"nvfp4": 16, "mxfp4": 32}


@dataclass(frozen=True)
class Situation:
    """Facts by name. One that is not known is None, and no row speaks of it."""

    engine: str
    version: str | None
    circumstances: Circumstances
    settings: Mapping[str, Scalar] = field(default_factory=dict)

    def fact(self, name: str) -> Scalar:
        if name in self.settings:
            return self.settings[name]
        derive = _DERIVED.get(name)
        known: Scalar = derive(self) if derive else getattr(self.circumstances, name, None)
        return known

    def number(self, name: str, default: int = 1) -> int:
        fact = self.fact(name)
        return int(fact) if isinstance(fact, int | float) else default


def plan_situation(
    engine: str,
    version: str | None,
    about: Circumstances,
    parallel: Parallel,
    cache_type: str,
    *,
    memory_fraction: float | None = None,
    draft: bool = False,
) -> Situation:
    """What a plan decides; parsers and most backends are chosen later, by the engine's flags."""
    settings: dict[str, Scalar] = {
        "tensor": parallel.tensor,
        "pipeline": parallel.pipeline,
        "decode_context": parallel.decode_context,
        "expert_parallel": parallel.expert,
        "data": parallel.data,
        "nodes": parallel.nodes,
        "cache_type": _SPELLINGS.get(cache_type, cache_type),
        "draft": draft,
    }
    if memory_fraction is not None:
        settings["memory_fraction"] = memory_fraction
    spread = engine_named(engine).spread
    if isinstance(spread, Ranks) and parallel.decode_context > 1 and "dense-mla" in about.attention:
        settings["backend"] = spread.sharing.latent_backend
    return Situation(engine, _release(engine, version), about, settings)


def recipe_situation(recipe: Recipe) -> Situation | None:
    """By its flags as they stand; None if nobody wrote down what it is for."""
    if recipe.circumstances is None:
        return None
    names = engine_named(recipe.engine).constrained_by
    settings: dict[str, Scalar] = dict.fromkeys(("tensor", "pipeline", "decode_context", "data"), 1)
    settings |= {"expert_parallel": False, "draft": False, "custom_all_reduce_off": False, "nodes": recipe.nodes}
    for name, given in _words(recipe.arguments):
        if name in names:
            settings[names[name]] = _read(names[name], given)
    spread = engine_named(recipe.engine).spread
    if isinstance(spread, Ranks) and spread.replicas_in_ranks:
        tensor, replicas = settings["tensor"], settings["data"]
        if isinstance(tensor, int) and isinstance(replicas, int) and replicas > 0:
            settings["tensor"] = max(1, tensor // replicas)
    settings["arguments"] = frozenset(name for name, _ in _words(recipe.arguments))
    settings["variables"] = frozenset(setting.name for setting in recipe.environment)
    return Situation(recipe.engine, _release(recipe.engine, recipe.engine_version), recipe.circumstances, settings)


def circumstances(model: Model, box: Box, image: str | None = None, patches: Iterable[str] = ()) -> Circumstances:
    """What box, model and build settle."""
    shape = model.architecture
    experts, row = shape.experts, row_of(model)
    weight_format, block = expert_format(model)
    known = find_image(image) if image else None
    indexers = [kind.indexer_top_k for kind in shape.attention if isinstance(kind, MlaAttention) and kind.sparse]
    heads = [kind.kv_heads for kind in shape.attention if isinstance(kind, GqaAttention)]
    latent = any(isinstance(kind, MlaAttention | CompressedAttention) for kind in shape.attention)
    return Circumstances(
        compute_capability=next((gpu.compute_capability for gpu in box.gpus if gpu.compute_capability), None),
        box_gpus=len(box.gpus),
        unified_memory=unified(box),
        model=row.id if row else None,
        artifact=model.source,
        architecture=shape.name,
        attention=tuple(dict.fromkeys(attention_name(kind) for kind in shape.attention)),
        kv_heads=None if latent or not heads else min(heads),
        index_top_k=next((count for count in indexers if count), None),
        experts=experts.count if experts else None,
        expert_width=experts.intermediate_size if experts else None,
        expert_format=weight_format,
        expert_block=block,
        thinking=_thinking(model),
        patches=tuple(dict.fromkeys((*(known.patches if known else ()), *patches))),
        image=known.id if known and known.kind == "community" else None,
    )


def _thinking(model: Model) -> ThinkingDefault | None:
    """By the artifact's own template where it was read; by the catalogue where it is only a name."""
    if model.basis == "read" and model.dialogue_marks is not None:
        return "never" if never_thinks(model) else None
    row = row_of(model)
    return row.thinking.default if row and row.thinking else None


def unified(box: Box) -> bool:
    """Whether GPU and system share one memory."""
    rows = (find("gpus", name) for name in {gpu.row for gpu in box.gpus if gpu.row})
    return any(isinstance(row, GpuRow) and row.unified_memory for row in rows)


def attention_name(kind: Attention) -> AttentionName:
    if isinstance(kind, MlaAttention):
        return "sparse-mla" if kind.sparse else "dense-mla"
    if isinstance(kind, GqaAttention):
        return "gqa" if kind.window_tokens is None else "windowed"
    if isinstance(kind, LinearAttention):
        return "linear"
    return "compressed" if isinstance(kind, CompressedAttention) else "shared"


def expert_format(model: Model) -> tuple[WeightFormat | None, int | None]:
    """How routed experts are stored, and how many weights share a scale: by what was read, else by what is declared."""
    stored: dict[str, int] = {}
    for line in model.weights:
        if line.group == "routed_experts":
            stored[line.dtype] = stored.get(line.dtype, 0) + line.parameters
    main = max(stored, key=lambda dtype: stored[dtype], default="")
    for text in (main, model.quantisation or "", model.format if model.format == "gguf" else ""):
        for pattern, name in _FORMATS:
            if match := re.search(pattern, text.upper()):
                block = next((int(group) for group in match.groups() if group), _GROUPS.get(name))
                return name, block
    return None, None


def _release(engine: str, version: str | None) -> str | None:
    """Of an unknown version the newest that is known; a build's mark does not count."""
    return version.partition("+")[0] if version else next(reversed(recorded_versions(engine)), None)


def _words(settings: Iterable[Setting]) -> Iterator[tuple[str, str | None]]:
    """Flags with what they are given, also where people write `--flag=value`."""
    for setting in settings:
        name, sign, given = setting.name.partition("=")
        yield name, given if sign else setting.value


def _read(name: str, given: str | None) -> Scalar:
    if given is None:
        return True
    if name == "expert_parallel":  # a number of ranks in one engine, a switch in another
        return given not in ("1", "false", "False")
    if name == "draft":
        return True
    if name == "cache_type":
        return _SPELLINGS.get(given, given)
    for kind in (int, float):
        try:
            return kind(given)
        except ValueError:
            continue
    return given


def _width(situation: Situation) -> int | float | None:
    """Of an expert on one rank: data-parallel ranks divide experts too, unless they hold whole ones."""
    width = situation.circumstances.expert_width
    if width is None or situation.fact("expert_parallel"):
        return width
    ranks = situation.number("tensor") * situation.number("data")
    return width // ranks if width % ranks == 0 else width / ranks


def _replicas(situation: Situation) -> int | None:
    """Copies of a KV head beyond those that decode context parallelism takes apart; negative if there are too few."""
    heads = situation.circumstances.kv_heads
    if heads is None:
        return None
    return max(1, situation.number("tensor") // heads) - situation.number("decode_context")


def _ranks_left(situation: Situation) -> int:
    return situation.number("tensor") % situation.number("decode_context")


def _experts_left(situation: Situation) -> int | None:
    """Experts that do not come out even when ranks hold whole ones."""
    count = situation.circumstances.experts
    if count is None or not situation.fact("expert_parallel"):
        return 0 if count else None
    return count % (situation.number("tensor") * situation.number("data"))


_DERIVED = {
    "expert_width_per_rank": _width,
    "kv_replicas_left": _replicas,
    "ranks_left": _ranks_left,
    "experts_left": _experts_left,
}
