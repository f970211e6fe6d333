"""The files of one artifact -> Model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from upright.base.errors import ReadError, UsageError
from upright.facts.records.model import Architecture, Group, Model, ModelFile
from upright.models.deriving.configuration import configured
from upright.models.reading import config as hf
from upright.models.reading import gguf, gguf_keys, safetensors
from upright.models.reading.blobs import Blob, BlobWindow
from upright.models.reading.classing import placed_by_shape
from upright.models.reading.dialogue import dialogue_of, marks_in
from upright.models.reading.inventory import Stock
from upright.models.reading.ledger import Ledger
from upright.models.reading.names import Namer, family_of, gguf_namer, hf_namer, with_family
from upright.models.reading.own_code import own_code_of
from upright.models.reading.places import ArtifactPlace, read_small
from upright.models.reading.quantisation import Stored, declared, stored_formats
from upright.models.reading.selection import FileSelection
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
    stock = Stock()
    for header in headers:
        stock.add(header)
    stored = (Stored(kind, tally, kind.dtype, kind.elements) for kind, tally in stock.kinds.items())
    ledger = _ledger(stored, gguf_namer(architecture.layers), architecture)
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
    configuration = configured(config, "config.json")
    architecture = with_family(configuration.architecture)
    accounts, stock = _safetensors_stock([place.blob(file) for file in files], progress)
    namer = hf_namer(family_of(architecture.name), architecture.layers)
    ledger = _ledger(stored_formats(stock.kinds, config), namer, architecture)
    lines = ledger.lines()
    groups = {line.group for line in lines}
    has_template, marks = dialogue_of(place, names)
    return {
        "architecture": _as_stored(architecture, groups),
        "files": accounts,
        "weights": lines,
        "unknown": ledger.unknown(),
        "chat_template": has_template,
        "dialogue_marks": marks,
        "own_code": own_code_of(place, names, config),
        "quantisation": declared(config),
        "not_understood": configuration.not_understood,
        "assumed": configuration.assumed,
    }


def _safetensors_stock(blobs: Sequence[Blob], progress: Progress) -> tuple[tuple[ModelFile, ...], Stock]:
    """Headers of a repository are mostly alike: the last two say how much of the next file to ask for at once."""
    stock, lengths = Stock(), [_SAFETENSORS_FIRST_BYTES] * 2

    def read_one(blob: Blob) -> ModelFile:
        header = safetensors.parse(BlobWindow(blob, max(_SAFETENSORS_FIRST_BYTES, min(lengths[-2:]))))
        lengths.append(header.header_bytes + header.header_bytes // 50)
        stock.add(header)
        return account(blob.name, blob.size_bytes, header, gaps=False)

    return tuple(_each(read_one, blobs, progress)), stock


def _ledger(stored: Iterable[Stored], namer: Namer, architecture: Architecture) -> Ledger:
    ledger = Ledger()
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
