"""What the caller named -> Model. A path, `owner/repo[@revision][:QUANT]`, or a catalogue name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from upright.base.errors import ReadError, UnreachedError
from upright.facts import catalog
from upright.facts.records.model import Model
from upright.models.reading.artifact import Progress, read_artifact
from upright.models.reading.cache import snapshot
from upright.models.reading.catalogue import from_catalog
from upright.models.reading.configuration import read_configuration
from upright.models.reading.hub import Hub, Repository, Traffic
from upright.models.reading.places import ArtifactPlace, LocalDirectory
from upright.models.reading.selection import FileSelection, choose, parts_of

_PATHLIKE = re.compile(r"[./~].*|.*\.(gguf|safetensors|json)")
_REPOSITORY = re.compile(
    r"(?P<repo>[\w.-]{1,96}/[\w.-]{1,96})(@(?P<revision>[\w./-]{1,128}))?(:(?P<quant>[\w.-]{1,64}))?", re.ASCII
)

_NAMED = (
    "a GGUF file, a config.json, a model's directory, owner/repo[@revision][:QUANT], "
    "or one of: upright catalog list models"
)


@dataclass(frozen=True)
class Named:
    """`owner/repo[@revision][:QUANT]`, taken apart."""

    repo: str
    revision: str | None = None
    quant: str | None = None


@dataclass(frozen=True)
class Located:
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
    with located(source, hub=hub, traffic=traffic) as location:
        if location.choice.format == "config":
            return read_configuration(location.place, location.choice.files[0], source=source, name=location.name)
        return read_artifact(
            location.place, location.choice, source=source, name=location.name, path=location.path, progress=progress
        )


@contextmanager
def located(source: str, *, hub: Hub | None = None, traffic: Traffic | None = None) -> Iterator[Located]:
    """Where an artifact is, here or on a hub, and which of its files; a hub is let go of at the end."""
    path, quant = _local(source)
    named = named_artifact(source)
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


def named_artifact(source: str) -> Named | None:
    """The repository that these words name; None if they are a path or a name of the catalogue."""
    repo_match = _REPOSITORY.fullmatch(source)
    if repo_match is None or _PATHLIKE.fullmatch(source):
        return None
    return Named(repo_match["repo"], repo_match["revision"], repo_match["quant"])


def _local(source: str) -> tuple[Path, str | None]:
    """`DIR:QUANT` picks among the GGUF files of a directory; a path that exists as it stands is taken as it stands."""
    path = Path(source).expanduser()
    before, colon, quant = source.rpartition(":")
    if colon and quant and not path.exists() and Path(before).expanduser().is_dir():
        return Path(before).expanduser(), quant
    return path, None


def _is_unknown(source: str) -> bool:
    """No path and no repository's name: a name of the catalogue, or nothing."""
    return not _local(source)[0].exists() and named_artifact(source) is None


@contextmanager
def _repository(named: Named, hub: Hub, traffic: Traffic) -> Iterator[Located]:
    title = named.repo.split("/")[1]
    if hub.offline:
        folder = snapshot(named.repo, named.revision)
        if folder is None:
            message = f"{named.repo} is not in the cache, and HF_HUB_OFFLINE is set"
            raise UnreachedError(message, hint="unset HF_HUB_OFFLINE")
        place = LocalDirectory(folder, folder.name)
        choice = choose(place.names(), named.quant, named.repo)
        told = None if choice.format == "config" else str(folder / choice.engine_name)
        yield Located(place, choice, title, told)
        return
    repository = _open(hub, named.repo, named.revision, traffic)
    try:
        yield Located(repository, choose(repository.names(), named.quant, named.repo), title, None)
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


def _directory(path: Path, quant: str | None) -> Located:
    place = LocalDirectory(path)
    choice = choose(place.names(), quant, str(path))
    told = None if choice.format == "config" else str(path / choice.engine_name)
    return Located(place, choice, path.resolve().name, told)


def _file(path: Path) -> Located:
    if path.suffix == ".json":
        name = path.parent.resolve().name if path.stem == "config" else path.stem
        return Located(LocalDirectory(path.parent), FileSelection("config", (path.name,)), name, None)
    files = parts_of(path.name) or [path.name]
    missing = [name for name in files if not (path.parent / name).is_file()]
    if missing:
        raise ReadError(
            f"{path.name} is one of {len(files)} files, and {missing[0]} is missing",
            hint="download the missing files",
        )
    choice = FileSelection(_format(path), tuple(files))
    return Located(LocalDirectory(path.parent), choice, path.stem, str(path.parent / files[0]))


def _format(path: Path) -> Literal["gguf", "safetensors"]:
    """The name decides where it can, the first bytes where it cannot."""
    if path.suffix == ".gguf":
        return "gguf"
    if path.suffix == ".safetensors":
        return "safetensors"
    try:
        with path.open("rb") as file:
            begins = file.read(9)
    except OSError as error:
        raise ReadError(f"cannot read {path}: {error.strerror}") from None
    if begins[:4] == b"GGUF":
        return "gguf"
    if begins[8:] == b"{":  # eight bytes of length, then JSON
        return "safetensors"
    raise ReadError(f"{path} is no model: neither GGUF nor safetensors", hint=f"name {_NAMED}")
