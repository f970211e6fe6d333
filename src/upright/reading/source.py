"""What the caller named -> Model. A path, `owner/repo[@revision][:QUANT]`, or a catalogue name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from upright import catalog
from upright.errors import ReadError
from upright.reading.artifact import Progress, read_artifact
from upright.reading.cache import snapshot
from upright.reading.catalogue import from_catalog
from upright.reading.hub import Hub, Repository, Traffic
from upright.reading.places import LocalDirectory
from upright.reading.selection import Choice, choose, parts_of
from upright.records.model import Model

_PATHLIKE = re.compile(r"[./~].*|.*\.(gguf|safetensors)")
_REPOSITORY = re.compile(
    r"(?P<repo>[\w.-]{1,96}/[\w.-]{1,96})(@(?P<revision>[\w./-]{1,128}))?(:(?P<quant>[\w.-]{1,64}))?", re.ASCII
)


@dataclass(frozen=True)
class Named:
    """`owner/repo[@revision][:QUANT]`, taken apart."""

    repo: str
    revision: str | None = None
    quant: str | None = None


def read(
    source: str, *, hub: Hub | None = None, traffic: Traffic | None = None, progress: Progress | None = None
) -> Model:
    """Everything that a model's headers say; the weights themselves are neither read nor downloaded.

    `hub` is this machine's unless given; `traffic` is filled with what reading a repository has cost; `progress` is
    called with the number of headers read, and of how many.
    """
    path, quant = _local(source)
    if path.is_file():
        return _read_file(source, path)
    if path.is_dir():
        return _read_directory(source, path, quant)
    if (named := named_artifact(source)) is not None:
        return _read_repository(source, named, hub or Hub.of_this_machine(), traffic or Traffic(), progress)
    if model := from_catalog(source):
        return model
    raise ReadError(
        f"{source} is no file, no repository's name and not in the catalogue",
        hint="name a GGUF file, a model's directory, owner/repo[@revision][:QUANT], or one of: upright catalog models",
    )


def named_artifact(source: str) -> Named | None:
    """The repository that these words name; None if they are a path or a name of the catalogue."""
    found = _REPOSITORY.fullmatch(source)
    if found is None or _PATHLIKE.fullmatch(source):
        return None
    return Named(found["repo"], found["revision"], found["quant"])


def _local(source: str) -> tuple[Path, str | None]:
    """`DIR:QUANT` picks among the GGUF files of a directory; a path that exists as it stands is taken as it stands."""
    path = Path(source).expanduser()
    before, colon, quant = source.rpartition(":")
    if colon and quant and not path.exists() and Path(before).expanduser().is_dir():
        return Path(before).expanduser(), quant
    return path, None


def _read_repository(source: str, named: Named, hub: Hub, traffic: Traffic, progress: Progress | None) -> Model:
    title = named.repo.split("/")[1]
    if hub.offline:
        folder = snapshot(named.repo, named.revision)
        if folder is None:
            raise ReadError(f"{named.repo} is not in the cache, and HF_HUB_OFFLINE is set", hint="unset HF_HUB_OFFLINE")
        place = LocalDirectory(folder, folder.name)
        choice = choose(place.names(), named.quant, named.repo)
        return read_artifact(place, choice, source=source, name=title, path=str(folder / choice.engine_name))
    repository = _open(hub, named.repo, named.revision, traffic)
    try:
        choice = choose(repository.names(), named.quant, named.repo)
        return read_artifact(repository, choice, source=source, name=title, path=None, progress=progress)
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
        known = f"the catalogue knows it without the hub: {row.id}"
        raise ReadError(error.message, hint=f"{error.hint}, or {known}" if error.hint else known) from None


def _read_directory(source: str, path: Path, quant: str | None) -> Model:
    place = LocalDirectory(path)
    choice = choose(place.names(), quant, str(path))
    engine_path = str(path / choice.engine_name)
    return read_artifact(place, choice, source=source, name=path.resolve().name, path=engine_path)


def _read_file(source: str, path: Path) -> Model:
    place = LocalDirectory(path.parent)
    files = parts_of(path.name) or [path.name]
    missing = [name for name in files if not (path.parent / name).is_file()]
    if missing:
        raise ReadError(
            f"{path.name} is one of {len(files)} files, and {missing[0]} is missing",
            hint="download the missing files",
        )
    format_ = "gguf" if _begins_like_gguf(path) else "safetensors"
    choice = Choice("gguf" if format_ == "gguf" else "safetensors", tuple(files))
    return read_artifact(place, choice, source=source, name=path.stem, path=str(path.parent / files[0]))


def _begins_like_gguf(path: Path) -> bool:
    """The name decides where it can, the first bytes where it cannot."""
    if path.suffix in (".gguf", ".safetensors"):
        return path.suffix == ".gguf"
    try:
        with path.open("rb") as file:
            return file.read(4) == b"GGUF"
    except OSError as error:
        raise ReadError(f"cannot read {path}: {error.strerror}") from None
