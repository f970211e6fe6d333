"""config.json -> Architecture, or the names of the keys that stand in the way.

The family is found by the class that engines build, else by the type of the text part. Its row names the functions that
read it. What they leave over and what they refuse makes the reading "not understood", with bounds on either side.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from upright.base.bounds.bounded_json import parse_json
from upright.base.errors import ReadError
from upright.facts import catalog
from upright.facts.catalog.loader import OURS
from upright.facts.records.model import Architecture, Experts, RopeScaling
from upright.models.deriving.attention import BUILDERS, Builder, LayerPlace
from upright.models.deriving.bounds import bounds
from upright.models.deriving.feedforward import FeedForward, feedforward
from upright.models.deriving.keys import MOST_LAYERS, ConfigKeys
from upright.models.deriving.latent import LATENT
from upright.models.deriving.layer_patterns import FULL, layer_kinds
from upright.models.deriving.layers import Layer, ParsedConfiguration, count_alike
from upright.models.deriving.model_tensors import text_tensors
from upright.models.deriving.recurrent import RECURRENT
from upright.models.deriving.tables import tables
from upright.models.deriving.words import word_packing

if TYPE_CHECKING:
    from upright.facts.catalog.rows.architecture import ArchitectureRow

TEXT_PARTS = ("text_config", "llm_config", "language_config", "thinker_config", "text_model_config")
VISION_PARTS = ("vision_config", "visual_config", "visual", "vit_config", "img_processor", "vision_tower_config")
_PLAIN = {
    "full_attention": "gqa",
    "sliding_attention": "gqa-window",
    "chunked_attention": "gqa-chunk",
}
_ALL_BUILDERS: Mapping[str, Builder] = {**BUILDERS, **LATENT, **RECURRENT}
_DRAFTS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers")


def parse_configuration(config: Mapping[str, Any], file: str = "config.json") -> ParsedConfiguration:
    part = text_part(config)
    name = _name(config) or _name(part)
    row = family(config, part)
    if name is None and row is None:
        raise ReadError(f"{file} does not say its architecture (`architectures`)")
    keys = _keys(config, part, row, file)
    stack = _stack(keys, row)
    if len(stack) > MOST_LAYERS:
        raise ReadError(f"{file} is broken: {len(stack)} layers")
    architecture = Architecture(
        name=_built(keys, row, name if part is config else None) or name or str(_type(config, part)),
        family=None,
        layers=len(stack),
        hidden_size=keys.required("hidden_size"),
        vocabulary_size=keys.required("vocab_size"),
        context_limit_tokens=keys.integer("max_position_embeddings", "model_max_length", "max_sequence_length"),
        attention=count_alike(stack),
        experts=_experts(stack),
        intermediate_size=next(
            (layer.feedforward.dense_width for layer in stack if layer.feedforward.dense_width), None
        ),
        rope_scaling=rope_scaling(part),
        draft_layers=_drafts(keys),
        vision=any(isinstance(around.get(sight), Mapping) for around in wrappers(config) for sight in VISION_PARTS),
        tables=tables(keys),
    )
    tied = config.get("tie_word_embeddings") if part is not config else None
    read = ParsedConfiguration(architecture, (), {}, (), stack, row, keys, tied if isinstance(tied, bool) else None)
    keys.decides = "weights"
    tensors = text_tensors(read)
    refused, told = _told(config, part, keys, row, len(stack))
    if told:
        low, high = bounds(keys, stack, refused, told)
        architecture = architecture.model_copy(update={"attention_at_least": low, "attention_at_most": high})
    return read._replace(
        architecture=architecture,
        not_understood=told,
        why=refused,
        assumed=keys.all_assumed(),
        tensors=tensors,
    )


def text_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part that describes the text model: inside a multimodal configuration, perhaps twice inside."""
    for name in TEXT_PARTS:
        inner = config.get(name)
        if isinstance(inner, Mapping) and inner:
            return text_part(inner)
    return config


def wrappers(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The configuration and the parts around the text model: towers stand in any of them."""
    yield config
    for name in TEXT_PARTS:
        inner = config.get(name)
        if isinstance(inner, Mapping) and inner:
            yield from wrappers(inner)
            return


def family(config: Mapping[str, Any], part: Mapping[str, Any]) -> ArchitectureRow | None:
    """By class, the outer one first: an engine goes by it; then by type, the inner one first."""
    by_class, by_type = _families()
    for holder in (config, part):
        if (name := _name(holder)) in by_class:
            return by_class[name]
    for holder in (part, config):
        if (kind := holder.get("model_type")) in by_type and isinstance(kind, str):
            return by_type[kind]
    return None


@cache
def _families() -> tuple[dict[str | None, ArchitectureRow], dict[Any, ArchitectureRow]]:
    rows = cast("list[ArchitectureRow]", list(catalog.rows("architectures").values()))
    by_class: dict[str | None, ArchitectureRow] = {name: row for row in rows for name in row.architectures}
    return by_class, {name: row for row in rows for name in row.model_types}


def rope_scaling(part: Mapping[str, Any]) -> RopeScaling | None:
    for name in ("rope_scaling", "rope_parameters"):
        scaling = part.get(name)
        if isinstance(scaling, Mapping):
            if isinstance(inner := scaling.get("full_attention"), Mapping):
                scaling = inner
            kind = scaling.get("rope_type") or scaling.get("type")
            if not isinstance(kind, str) or kind == "default":
                return None
            factor, original = scaling.get("factor"), scaling.get("original_max_position_embeddings")
            return RopeScaling(
                kind=kind,
                factor=float(factor) if isinstance(factor, int | float) else None,
                original_context_tokens=original if type(original) is int else None,
            )
    return None


def _keys(config: Mapping[str, Any], part: Mapping[str, Any], row: ArchitectureRow | None, file: str) -> ConfigKeys:
    library = library_type(str(part.get("model_type") or config.get("model_type") or ""))
    names = {**library.names, **(row.names if row else {})}
    keys = ConfigKeys(part, file, defaults=library.defaults, other_names=names, source=library.source)
    if row:
        keys.ignore(*row.inert)
    return keys


def _stack(keys: ConfigKeys, row: ArchitectureRow | None) -> tuple[Layer, ...]:
    layers = keys.integer("num_hidden_layers")
    if layers is None and (row is None or row.pattern != "letters"):
        layers = keys.required("num_hidden_layers")
    layers = layers or 1
    if not 0 < layers <= MOST_LAYERS:
        raise ReadError(f"{keys.file} is broken: {layers} layers")
    if row is None:
        kinds: tuple[str, ...] = layer_kinds("uniform-window", keys, layers, {})
        feeds = feedforward("first-dense", keys, kinds, {})
        return tuple(_layer(keys, kinds, index, {}, {}, feeds[index]) for index in range(layers))
    kinds = layer_kinds(row.pattern, keys, layers, row.settings)
    _rehearse(keys, row, kinds)
    feeds = feedforward(row.feedforward, keys, kinds, row.settings)
    return tuple(_layer(keys, kinds, index, row.kinds, row.settings, feeds[index]) for index in range(len(kinds)))


def _rehearse(keys: ConfigKeys, row: ArchitectureRow, kinds: tuple[str, ...]) -> None:
    """Asks what the family's other kinds of layers would ask: a key that only an absent kind needs is no stranger."""
    plain = () if row.kinds.get(FULL, "gqa") not in ("gqa", "gqa-indexed") else _PLAIN.items()
    for kind, named in {**dict(plain), **row.kinds}.items():
        if kind in kinds or kind == "*":
            continue
        copy = ConfigKeys(keys.values, keys.file, other_names=keys.other_names)
        builder = _ALL_BUILDERS[named]
        with suppress(ReadError):
            builder(copy, LayerPlace(0, 1, (kind,), row.settings))
        keys.ignore(*copy.asked)
        for name, part in copy.parts.items():
            if (own := keys.part(name)) is not None:
                own.ignore(*part.asked)


def _layer(
    keys: ConfigKeys,
    kinds: tuple[str, ...],
    index: int,
    builders: Mapping[str, str],
    settings: Mapping[str, int | str | bool],
    feed: FeedForward,
) -> Layer:
    kind = kinds[index]
    named = builders.get(kind) or builders.get("*") or _PLAIN.get(kind)
    if named is None:
        keys.refuse("layer_types", f"{kind[:40]} is no kind of layer that is known here")
        return Layer(kind, (), feed)
    builder = _ALL_BUILDERS[named]
    return Layer(kind, builder(keys, LayerPlace(index, len(kinds), kinds, settings)), feed)


_DRAFT_HEAD = re.compile(r"eagle|medusa|dflash|dspark|mlpspeculator", re.IGNORECASE)
"""Classes of what guesses for another model: its shape may be a plain model's, and it answers nobody."""


def _built(keys: ConfigKeys, row: ArchitectureRow | None, name: str | None) -> str | None:
    """The class that engines build where the file's own is of nobody's, and its type says the family."""
    if row is None or name is None or not row.architectures or name in _families()[0]:
        return None
    if _DRAFT_HEAD.search(name):
        keys.refuse("architectures", f"{name[:60]} is a draft's head, which no engine serves by itself")
        return None
    keys.assume("architectures", row.architectures[0], f"{name[:60]} is no class that an engine has; its model_type is")
    return row.architectures[0]


def _type(config: Mapping[str, Any], part: Mapping[str, Any]) -> Any:
    return part.get("model_type") or config.get("model_type")


def _experts(stack: tuple[Layer, ...]) -> Experts | None:
    placed = [(index, layer.feedforward.mixture) for index, layer in enumerate(stack) if layer.feedforward.mixture]
    if not placed:
        return None
    first, mixture = placed[0]
    assert mixture is not None
    return Experts(
        count=mixture.count,
        active=mixture.active,
        shared=mixture.shared,
        first_moe_layer=first,
        intermediate_size=mixture.width or None,
    )


def _drafts(keys: ConfigKeys) -> int:
    """A checkpoint has draft layers if its file says so: the library's default speaks of the library's own model."""
    if not any(name in keys.values or keys.other_names.get(name) in keys.values for name in _DRAFTS):
        keys.ignore(*_DRAFTS)
        keys.absent.setdefault(_DRAFTS[0], keys.decides)
        return 0
    drafts = keys.get(*_DRAFTS)
    return drafts if type(drafts) is int and 0 <= drafts <= 64 else 0


def _told(
    config: Mapping[str, Any], part: Mapping[str, Any], keys: ConfigKeys, row: ArchitectureRow | None, layers: int
) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """What was refused, and every key to tell of: refused ones first, then leftovers of the text part and around it."""
    refused = keys.all_refused()
    told = [*refused, *memory_keys(keys.left_over(key_aliases()), layers, known=row is not None)]
    if row is None:
        told.insert(0, "architectures" if _name(config) or _name(part) else "model_type")
    if part is not config:
        around = ((name, entry) for name, entry in config.items() if name not in (*TEXT_PARTS, *VISION_PARTS))
        told += [
            name
            for name in memory_keys(around, layers, known=True)
            if name not in told and not _same(name, config, part)
        ]
    if word_packing(config) is not None:
        told = [name for name in told if name != "quantization"]
    return refused, tuple(dict.fromkeys(told))


def _same(name: str, config: Mapping[str, Any], part: Mapping[str, Any]) -> bool:
    """A key of the text part, repeated outside."""
    return name in part and part[name] == config[name]


def _name(config: Mapping[str, Any]) -> str | None:
    names = config.get("architectures")
    return names[0] if isinstance(names, list) and names and isinstance(names[0], str) else None


class LibraryType(NamedTuple):
    """A configuration class as recorded by scripts/record-library-defaults."""

    defaults: Mapping[str, Any]
    names: Mapping[str, str]
    """Another spelling for each key, both ways."""
    source: str


def library_type(model_type: str | None) -> LibraryType:
    recorded = _recorded()
    row = recorded["types"].get(model_type) if model_type else None
    if row is None:
        return LibraryType({}, {}, "")
    names = row.get("names", {})
    both = {**{other: name for name, other in names.items()}, **names}
    return LibraryType(row["keys"], both, f"{recorded['source']} {row['class']}")


@cache
def _recorded() -> dict[str, Any]:
    content: dict[str, Any] = parse_json((OURS / "library_defaults.json").read_bytes())
    return content


_MOST_TOLD = 40


def memory_keys(left_over: Iterable[tuple[str, Any]], layers: int, *, known: bool) -> tuple[str, ...]:
    """The names to tell, as the file spells them."""
    inert, endings, smells = _lists()
    told = []
    for path, entry in left_over:
        name = path.rpartition(".")[2]
        if _off(entry) or name in inert or name.startswith("_") or endings.search(name):
            continue
        if not known or smells.search(name.lower()) or _layered(entry, layers):
            told.append(path)
    return tuple(told[:_MOST_TOLD])


def _off(entry: Any) -> bool:
    return entry is None or entry is False or entry == 0 or (isinstance(entry, str | list | Mapping) and not entry)


def _layered(entry: Any, layers: int) -> bool:
    """A list with a value for each layer, or a mapping: a shape that decides something."""
    if isinstance(entry, Mapping):
        return True
    return isinstance(entry, list) and len(entry) >= max(4, layers)


@cache
def key_aliases() -> Mapping[str, str]:
    """Keys that are another name for a key."""
    names: dict[str, str] = _rows()["twins"]
    return names


@cache
def _rows() -> dict[str, Any]:
    content: dict[str, Any] = parse_json((OURS / "keys.json").read_bytes())
    return content


@cache
def _lists() -> tuple[frozenset[str], re.Pattern[str], re.Pattern[str]]:
    content = _rows()
    return (
        frozenset(name for group in content["inert"] for name in group["keys"]),
        re.compile("|".join(content["endings"])),
        re.compile("|".join(content["smells"])),
    )
