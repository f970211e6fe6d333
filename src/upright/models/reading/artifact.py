"""The files of one artifact -> Model."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar, cast

from upright.base.errors import ReadError, UsageError
from upright.facts.catalog import rows as rows_of
from upright.facts.catalog.rows.dialect import DialectRow
from upright.facts.records.model import Architecture, Group, Model, ModelFile, UnknownName, WeightLine
from upright.models.deriving.configuration import parse_configuration
from upright.models.reading import config as hf
from upright.models.reading import gguf, gguf_keys, safetensors
from upright.models.reading.blobs import Blob, BlobWindow
from upright.models.reading.inventory import TensorInventory, TensorKind
from upright.models.reading.places import ArtifactPlace, read_small
from upright.models.reading.quantisation import StoredKind, declared_method, stored_formats, undecoded_words
from upright.models.reading.selection import FileSelection
from upright.models.reading.tensor_names import (
    TensorClassifier,
    TensorPlace,
    family_of,
    gguf_classifier,
    hf_classifier,
    with_family,
)
from upright.models.reading.tensors import Header, account

Progress = Callable[[int, int], None]
T = TypeVar("T")
R = TypeVar("R")
_GGUF_FIRST_BYTES = 1 << 20
_SAFETENSORS_FIRST_BYTES = 1 << 16
_AT_ONCE = 8


def read_artifact(
    place: ArtifactPlace,
    choice: FileSelection,
    *,
    source: str,
    name: str,
    path: str | None,
    progress: Progress | None = None,
) -> Model:
    """ReadError also of a name that no record may hold: an architecture's, a tensor's, a file's."""
    reader = _read_gguf if choice.format == "gguf" else _read_safetensors
    try:
        return _model(place, choice, reader(place, choice.files, progress or _nobody), source, name, path)
    except UsageError as error:
        raise ReadError(f"{place.title}: {error.message}", hint=error.hint) from None


def _model(
    place: ArtifactPlace, choice: FileSelection, facts: dict[str, Any], source: str, name: str, path: str | None
) -> Model:
    return Model(
        name=facts.pop("name", None) or name,
        source=source,
        revision=place.revision,
        format=choice.format,
        basis="read",
        path=path,
        **facts,
    )


def _read_gguf(place: ArtifactPlace, files: Sequence[str], progress: Progress) -> dict[str, Any]:
    blobs = [place.blob(file) for file in files]
    headers = _each(lambda blob: gguf.parse(BlobWindow(blob, _first_bytes(blob))), blobs, progress)
    accounts = tuple(account(blob.name, blob.size_bytes, header) for blob, header in zip(blobs, headers, strict=True))
    metadata = headers[0].metadata
    _check_split(files, headers)
    architecture, told = gguf_keys.architecture(metadata, files[0])
    stock = TensorInventory()
    for header in headers:
        stock.add(header)
    stored = (StoredKind(kind, tally, kind.dtype, kind.elements) for kind, tally in stock.kinds.items())
    ledger = _ledger(stored, gguf_classifier(architecture.layers), architecture)
    ik_types = {kind.name for kind in gguf.ggml_types().values() if kind.ik_only}
    return {
        "name": _printable(metadata.get("general.name")),
        "architecture": architecture,
        "files": accounts,
        "weights": ledger.lines(),
        "unknown": ledger.unknown(),
        "chat_template": isinstance(template := metadata.get("tokenizer.chat_template"), str),
        "dialogue_marks": marks_in([template]) if isinstance(template, str) else None,
        "own_code": (),
        "ik_only": any(kind.dtype in ik_types for kind in stock.kinds),
        "not_understood": told,
    }


def _read_safetensors(place: ArtifactPlace, files: Sequence[str], progress: Progress) -> dict[str, Any]:
    names = set(place.names())
    if "config.json" not in names:
        raise ReadError(
            f"{place.title} has no config.json, so its architecture is unknown",
            hint="put the model's config.json beside its safetensors files",
        )
    config = hf.parse_config(read_small(place, "config.json", hf.CONFIG_LIMIT_BYTES), "config.json")
    configuration = parse_configuration(config, "config.json")
    architecture = with_family(configuration.architecture)
    accounts, stock = _safetensors_stock([place.blob(file) for file in files], progress)
    namer = hf_classifier(family_of(architecture.name), architecture.layers)
    stored = tuple(stored_formats(stock.kinds, config))
    ledger = _ledger(stored, namer, architecture)
    told = (*configuration.not_understood, *(("quantization",) if undecoded_words(stock.kinds, stored) else ()))
    lines = ledger.lines()
    groups = {line.group for line in lines}
    has_template, marks = chat_template_marks(place, names)
    return {
        "architecture": _as_stored(architecture, groups),
        "files": accounts,
        "weights": lines,
        "unknown": ledger.unknown(),
        "chat_template": has_template,
        "dialogue_marks": marks,
        "own_code": remote_code_classes(place, names, config),
        "quantisation": declared_method(config),
        "not_understood": tuple(dict.fromkeys(told)),
        "assumed": configuration.assumed,
    }


def _safetensors_stock(blobs: Sequence[Blob], progress: Progress) -> tuple[tuple[ModelFile, ...], TensorInventory]:
    """Headers of a repository are mostly alike: the last two say how much of the next file to ask for at once."""
    stock, lengths = TensorInventory(), [_SAFETENSORS_FIRST_BYTES] * 2

    def read_one(blob: Blob) -> ModelFile:
        header = safetensors.parse(BlobWindow(blob, max(_SAFETENSORS_FIRST_BYTES, min(lengths[-2:]))))
        lengths.append(header.header_bytes + header.header_bytes // 50)
        stock.add(header)
        return account(blob.name, blob.size_bytes, header, gaps=False)

    return tuple(_each(read_one, blobs, progress)), stock


def _ledger(stored: Iterable[StoredKind], namer: TensorClassifier, architecture: Architecture) -> WeightSums:
    ledger = WeightSums()
    for kind, tally, label, parameters in stored:
        place = namer.place(kind.name)
        if not place.known:
            place = placed_by_shape(kind, architecture, tally.tensors) or place
        key = (place.group, place.layer, label)
        ledger.add(key, tensors=tally.tensors, parameters=parameters * tally.tensors, bytes=tally.bytes)
        if not place.known:
            ledger.note_unknown(kind.name, tensors=tally.tensors, bytes=tally.bytes)
    return ledger


def _each(work: Callable[[T], R], items: Sequence[T], progress: Progress) -> list[R]:
    """Several at once: the time goes into waiting for answers. After the first failure nothing new is begun."""
    if len(items) < 2:
        return [work(entry) for entry in items]
    done: list[R] = []
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        try:
            for output in pool.map(work, items):
                done.append(output)
                progress(len(done), len(items))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return done


def _nobody(done: int, of: int) -> None:
    """The progress of a caller who does not ask."""


def _first_bytes(blob: Blob) -> int:
    return min(_GGUF_FIRST_BYTES, max(1, blob.size_bytes))


def _check_split(files: Sequence[str], headers: Sequence[Header]) -> None:
    """A split GGUF says in each file which part it is."""
    for number, (file, header) in enumerate(zip(files, headers, strict=True)):
        part, parts = header.metadata.get("split.no", 0), header.metadata.get("split.count", 1)
        if (part, max(parts, 1) if type(parts) is int else parts) != (number, len(files)):
            raise ReadError(
                f"{file} says it is part {part} of {parts}, its name says {number} of {len(files)} (counted from 0)",
                hint="download the file again, or give it back its own name",
            )


def _printable(name: object) -> str | None:
    """Names reach terminals, scripts and service files: escapes and line breaks of a header must not."""
    plain_name = " ".join(name.split()) if isinstance(name, str) else ""
    return plain_name if plain_name.isprintable() else None


def _as_stored(architecture: Architecture, groups: set[Group]) -> Architecture:
    """The configuration may promise a vision tower or draft layers that the files do not hold."""
    return architecture.model_copy(
        update={
            "vision": "vision" in groups,
            "draft_layers": architecture.draft_layers if "draft" in groups else 0,
        }
    )


_LAYER = re.compile(r"(?:^|\.)(?:layers?|blocks?|h)\.([0-9]{1,5})\.")
_MATRIX = 2


def placed_by_shape(kind: TensorKind, architecture: Architecture, copies: int) -> TensorPlace | None:
    """Where a tensor of this shape belongs, `copies` of it; None if several things could have it."""
    match = _LAYER.search(kind.name)
    layer = int(match[1]) if match else None
    if layer is not None and layer >= architecture.layers:
        return TensorPlace("draft", layer, known=False)
    group = _group(kind, architecture, copies, outside=layer is None)
    return TensorPlace(group, layer, known=False) if group else None


def _group(kind: TensorKind, architecture: Architecture, copies: int, *, outside: bool) -> Group | None:
    shape, experts = kind.shape, architecture.experts
    wide = max(architecture.hidden_size, architecture.intermediate_size or 0)
    if outside:
        rows = len(shape) == _MATRIX and shape[0] >= architecture.vocabulary_size
        return "embedding" if rows and shape[1] == architecture.hidden_size else None
    if experts is not None and experts.count > 1:
        if len(shape) > _MATRIX and shape[0] == experts.count:
            return "routed_experts"
        if copies >= experts.count and copies % experts.count == 0 and len(shape) == _MATRIX:
            return "routed_experts"
        if len(shape) == _MATRIX and shape[0] == experts.count and shape[1] == architecture.hidden_size:
            return "router"
    if len(shape) == 1 and shape[0] <= 4 * wide:
        return "norm"
    return None


_SETTINGS = "tokenizer_config.json"
_MOST = 16


def remote_code_classes(place: ArtifactPlace, names: set[str], config: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the loader's classes that the artifact replaces by code of its own: AutoConfig, AutoTokenizer, ..."""
    settings: Mapping[str, Any] = {}
    if _SETTINGS in names:
        settings = hf.parse_config(read_small(place, _SETTINGS, hf.CONFIG_LIMIT_BYTES), _SETTINGS)
    return tuple(sorted({*_replaced(config), *_replaced(settings)}))[:_MOST]


def _replaced(configuration: Mapping[str, Any]) -> Iterator[str]:
    classes = configuration.get("auto_map")
    if isinstance(classes, Mapping):
        yield from (name for name in classes if isinstance(name, str) and name.isidentifier() and len(name) <= 64)


TOOLS = "tools"
"""The variable by which a template is told of tools."""
_TEMPLATE_FILES = ("chat_template.jinja", "chat_template.json")
_TOKENIZER_SETTINGS = "tokenizer_config.json"
_MOST_TEMPLATES, _MOST_TOKENS = 16, 4096


def chat_template_marks(place: ArtifactPlace, names: set[str]) -> tuple[bool | None, tuple[str, ...] | None]:
    """Whether there is a chat template, and the marks; None for what there was nothing to look at."""
    files = [name for name in _TEMPLATE_FILES if name in names]
    texts = [read_small(place, name, hf.CONFIG_LIMIT_BYTES).decode(errors="replace") for name in files]
    if _TOKENIZER_SETTINGS not in names:
        return (True, marks_in(texts)) if files else (None, None)
    settings = hf.parse_config(read_small(place, _TOKENIZER_SETTINGS, hf.CONFIG_LIMIT_BYTES), _TOKENIZER_SETTINGS)
    templates = list(_templates(settings.get("chat_template")))
    return bool(files or templates), marks_in([*texts, *templates, *_tokens(settings)])


def marks_in(texts: Iterable[str]) -> tuple[str, ...]:
    """Those of the catalogue's marks that stand in one of the texts."""
    whole = "\n".join(texts)
    return tuple(mark for mark in _known_marks() if mark in whole)


@cache
def _known_marks() -> tuple[str, ...]:
    rows = cast("Iterable[DialectRow]", rows_of("dialects").values())
    marks = [TOOLS, *(mark for row in rows for mark in row.all_marks)]
    return tuple(dict.fromkeys(marks))


def _templates(entry: object) -> Iterator[str]:
    """One, or several by name."""
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, list):
        for named in entry[:_MOST_TEMPLATES]:
            if isinstance(named, dict) and isinstance(template := named.get("template"), str):
                yield template


def _tokens(settings: Mapping[str, Any]) -> Iterator[str]:
    added, special = settings.get("added_tokens_decoder"), settings.get("additional_special_tokens")
    entries = [*(added.values() if isinstance(added, dict) else ()), *(special if isinstance(special, list) else ())]
    for entry in entries[:_MOST_TOKENS]:
        content = entry.get("content") if isinstance(entry, dict) else entry
        if isinstance(content, str):
            yield content


_NUMBERS = re.compile(r"\d+")
_UNKNOWN_LIMIT = 100
_LONGEST_PATTERN = 200
_ORDER: tuple[Group, ...] = (
    "embedding", "attention", "indexer", "dense_ffn", "router", "routed_experts", "shared_experts", "norm", "output",
    "tables", "vision", "draft", "other",
)  # fmt: skip

WeightKey = tuple[Group, int | None, str]


class WeightSums:
    """Adds up as tensors come; one writer."""

    def __init__(self) -> None:
        self._sums: dict[WeightKey, list[int]] = {}
        self._unknown: dict[str, list[int]] = {}

    def add(self, key: WeightKey, *, tensors: int, parameters: int, bytes: int) -> None:
        sums = self._sums.get(key)
        if sums is None:
            self._sums[key] = [tensors, parameters, bytes]
        else:
            sums[0] += tensors
            sums[1] += parameters
            sums[2] += bytes

    def note_unknown(self, name: str, *, tensors: int, bytes: int) -> None:
        pattern = _NUMBERS.sub("*", name)[:_LONGEST_PATTERN]
        if pattern not in self._unknown and len(self._unknown) >= _UNKNOWN_LIMIT:
            pattern = "(more names)"
        sums = self._unknown.setdefault(pattern, [0, 0])
        sums[0] += tensors
        sums[1] += bytes

    def lines(self) -> tuple[WeightLine, ...]:
        def order(key: WeightKey) -> tuple[int, int, str]:
            group, layer, dtype = key
            return _ORDER.index(group), -1 if layer is None else layer, dtype

        return tuple(
            WeightLine(group=key[0], layer=key[1], dtype=key[2], tensors=sums[0], parameters=sums[1], bytes=sums[2])
            for key, sums in sorted(self._sums.items(), key=lambda entry: order(entry[0]))
        )

    def unknown(self) -> tuple[UnknownName, ...]:
        largest_first = sorted(self._unknown.items(), key=lambda entry: (-entry[1][1], entry[0]))
        return tuple(UnknownName(pattern=name, tensors=sums[0], bytes=sums[1]) for name, sums in largest_first)
