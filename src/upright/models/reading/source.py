"""A Model from a path, `owner/repo[@revision][:QUANT]` or a catalogue name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from upright.base.bounds.files import open_file
from upright.base.errors import ReadError, UnreachedError
from upright.facts import catalog
from upright.facts.records.model import Model
from upright.models.deriving.model import model_of, with_bounds
from upright.models.reading.artifact import Progress, read_artifact
from upright.models.reading.cache import snapshot
from upright.models.reading.catalogue import from_catalog
from upright.models.reading.config import CONFIG_LIMIT_BYTES, parse_config
from upright.models.reading.hub import Hub, Repository, Traffic
from upright.models.reading.places import ArtifactPlace, LocalDirectory, read_small
from upright.models.reading.selection import FileSelection, choose, parts_of
from upright.models.reading.tensor_names import with_family

_PATHLIKE = re.compile(r"[./~].*|.*\.(gguf|safetensors|json)")
_REPOSITORY = re.compile(
    r"(?P<repo>[\w.-]{1,96}/[\w.-]{1,96})(@(?P<revision>[\w./-]{1,128}))?(:(?P<quant>[\w.-]{1,64}))?", re.ASCII
)

_NAMED = (
    "a GGUF file, a config.json, a model's directory, owner/repo[@revision][:QUANT], "
    "or one of: upright catalog list models"
)


@dataclass(frozen=True)
class HubReference:
    """`owner/repo[@revision][:QUANT]`, taken apart."""

    repo: str
    revision: str | None = None
    quant: str | None = None


@dataclass(frozen=True)
class LocatedArtifact:
    """An artifact that was found."""

    place: ArtifactPlace
    choice: FileSelection
    name: str
    """What it is called if its header does not say."""
    path: str | None
    """What an engine is told; None if it is not on this disk."""


def read(
    source: str, *, hub: Hub | None = None, traffic: Traffic | None = None, progress: Progress | None = None
) -> Model:
    """Everything that a model's headers say; the weights themselves are neither read nor downloaded.

    `hub` is this machine's unless given; `traffic` is filled with what reading a repository has cost; `progress` is
    called with the number of headers read, and of how many.
    """
    if _is_unknown(source) and (model := from_catalog(source)):
        return model
    with locate(source, hub=hub, traffic=traffic) as location:
        if location.choice.format == "config":
            return read_configuration(location.place, location.choice.files[0], source=source, name=location.name)
        return read_artifact(
            location.place, location.choice, source=source, name=location.name, path=location.path, progress=progress
        )


@contextmanager
def locate(source: str, *, hub: Hub | None = None, traffic: Traffic | None = None) -> Iterator[LocatedArtifact]:
    """Where an artifact is, here or on a hub, and which of its files; a hub is let go of at the end."""
    path, quant = _local(source)
    named = parse_hub_reference(source)
    if path.is_file():
        yield _file(path)
    elif path.is_dir():
        yield _directory(path, quant)
    elif named is not None:
        with _repository(named, hub or Hub.of_this_machine(), traffic or Traffic()) as location:
            yield location
    else:
        close = ", ".join(catalog.near("models", source, 6))
        raise ReadError(
            f"{source} is no file, no repository's name and not in the catalogue",
            hint=f"near: {close}; or name {_NAMED}" if close else f"name {_NAMED}",
        )


def parse_hub_reference(source: str) -> HubReference | None:
    """The repository that these words name; None if they are a path or a name of the catalogue."""
    repo_match = _REPOSITORY.fullmatch(source)
    if repo_match is None or _PATHLIKE.fullmatch(source):
        return None
    return HubReference(repo_match["repo"], repo_match["revision"], repo_match["quant"])


def _local(source: str) -> tuple[Path, str | None]:
    """`DIR:QUANT` picks among the GGUF files of a directory; a path that exists as it stands is taken as it stands."""
    path = Path(source).expanduser()
    before, colon, quant = source.rpartition(":")
    if colon and quant and not path.exists() and Path(before).expanduser().is_dir():
        return Path(before).expanduser(), quant
    return path, None


def _is_unknown(source: str) -> bool:
    """No path and no repository's name: a name of the catalogue, or nothing."""
    return not _local(source)[0].exists() and parse_hub_reference(source) is None


@contextmanager
def _repository(named: HubReference, hub: Hub, traffic: Traffic) -> Iterator[LocatedArtifact]:
    title = named.repo.split("/")[1]
    if hub.offline:
        folder = snapshot(named.repo, named.revision)
        if folder is None:
            message = f"{named.repo} is not in the cache, and HF_HUB_OFFLINE is set"
            raise UnreachedError(message, hint="unset HF_HUB_OFFLINE")
        place = LocalDirectory(folder, folder.name)
        choice = choose(place.names(), named.quant, named.repo)
        told = None if choice.format == "config" else str(folder / choice.engine_name)
        yield LocatedArtifact(place, choice, title, told)
        return
    repository = _open(hub, named.repo, named.revision, traffic)
    try:
        yield LocatedArtifact(repository, choose(repository.names(), named.quant, named.repo), title, None)
    finally:
        repository.close()


def _open(hub: Hub, repo: str, revision: str | None, traffic: Traffic) -> Repository:
    try:
        return Repository(hub, repo, revision, traffic)
    except ReadError as error:
        if snapshot(repo, revision) is not None:
            raise ReadError(error.message, hint="the cache holds it: HF_HUB_OFFLINE=1 reads it from there") from None
        row = catalog.find_model(repo)
        if row is None:
            raise
        known = f"without the hub: upright plan {row.id}, by what the catalogue knows"
        raise type(error)(error.message, hint=f"{error.hint}, or {known}" if error.hint else known) from None


def _directory(path: Path, quant: str | None) -> LocatedArtifact:
    place = LocalDirectory(path)
    choice = choose(place.names(), quant, str(path))
    told = None if choice.format == "config" else str(path / choice.engine_name)
    return LocatedArtifact(place, choice, path.resolve().name, told)


def _file(path: Path) -> LocatedArtifact:
    if path.suffix == ".json":
        name = path.parent.resolve().name if path.stem == "config" else path.stem
        return LocatedArtifact(LocalDirectory(path.parent), FileSelection("config", (path.name,)), name, None)
    files = parts_of(path.name) or [path.name]
    missing = [name for name in files if not (path.parent / name).is_file()]
    if missing:
        raise ReadError(
            f"{path.name} is one of {len(files)} files, and {missing[0]} is missing",
            hint="download the missing files",
        )
    choice = FileSelection(_format(path), tuple(files))
    return LocatedArtifact(LocalDirectory(path.parent), choice, path.stem, str(path.parent / files[0]))


def _format(path: Path) -> Literal["gguf", "safetensors"]:
    """The name decides where it can, the first bytes where it cannot."""
    if path.suffix == ".gguf":
        return "gguf"
    if path.suffix == ".safetensors":
        return "safetensors"
    try:
        with open_file(path) as file:
            begins = file.read(9)
    except OSError as error:
        raise ReadError(f"cannot read {path}: {error.strerror}") from None
    if begins[:4] == b"GGUF":
        return "gguf"
    if begins[8:] == b"{":  # eight bytes of length, then JSON
        return "safetensors"
    raise ReadError(f"{path} is no model: neither GGUF nor safetensors", hint=f"name {_NAMED}")


_QUANTISED = "hf_quant_config.json"
_IN_A_NAME = re.compile(r"(?i)(^|[-_./])(nvfp4|mxfp4|fp8|awq|gptq|int4|int8|w4a16|w8a8|w4a8|fp4)([-_./]|$)")
_NO_QUANTISATION = "quantization_config"


def read_configuration(place: ArtifactPlace, file: str, *, source: str, name: str) -> Model:
    """The configuration of a file, of a folder or of a repository without weights."""
    config = with_quantisation(place, _parsed(place, file))
    model = model_of(config, name=name, source=source, file=file)
    told = model.not_understood
    if model.quantisation is None and (_IN_A_NAME.search(name) or _IN_A_NAME.search(source)):
        # The name says that weights are quantised and the file does not say how: their size is not known.
        told = (*told, _NO_QUANTISATION)
    return model.model_copy(
        update={
            "revision": place.revision,
            "architecture": with_family(with_bounds(model.architecture, told)),
            "not_understood": told,
        }
    )


def _parsed(place: ArtifactPlace, file: str) -> Mapping[str, Any]:
    """A file that somebody names may be any JSON, or none."""
    text = read_small(place, file, CONFIG_LIMIT_BYTES)
    try:
        config = parse_config(text, file)
    except ReadError:
        config = {}
    if not config.get("architectures") and not config.get("model_type"):
        raise ReadError(f"{file} is no model: neither GGUF nor safetensors, nor a model's config.json")
    return config


def with_quantisation(place: ArtifactPlace, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """ModelOpt writes what it did into a file of its own, beside the configuration."""
    if "quantization_config" in config or _QUANTISED not in set(place.names()):
        return config
    beside = parse_config(read_small(place, _QUANTISED, CONFIG_LIMIT_BYTES), _QUANTISED).get("quantization")
    if not isinstance(beside, Mapping):
        return config
    declared = {**beside, "quant_method": "modelopt", "ignore": beside.get("exclude_modules") or []}
    return {**config, "quantization_config": declared}
