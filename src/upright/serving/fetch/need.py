"""The files to fetch of a model, which of them are here already, and whether the disk has space for the rest.

Nothing is written: this is what `--dry-run` shows, and what is refused is refused before the first byte.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from upright.base.errors import ReadError, UsageError
from upright.base.units import GIB
from upright.facts import catalog
from upright.facts.records.base import Part
from upright.models.reading.catalogue import catalogued_repository
from upright.models.reading.hub import Hub, ListedFile, Repository, Traffic
from upright.models.reading.selection import FileSelection, choose
from upright.models.reading.source import HubReference, parse_hub_reference
from upright.serving.fetch.layout import FetchLayout, cache_layout, folder_layout

_SHARED = frozenset({"9p", "beegfs", "ceph", "cifs", "lustre", "nfs", "nfs4", "virtiofs", "zfs"})
"""File systems whose source is no device of this machine, and which hold weights nevertheless."""
_KEPT_FREE = 0.01
_MOST_KEPT_FREE_BYTES = GIB


class OtherDisk(Part):
    """Another disk that has room."""

    folder: str
    """Where it is mounted."""
    free_bytes: int
    """What a user may still write there."""
    writable: bool
    """Whether this user may write in that folder itself."""


class DiskSpace(Part):
    """What a disk has for us."""

    folder: str
    """Where the files go."""
    free_bytes: int
    """What a user may still write there."""
    needed_bytes: int
    """What is still to be fetched, and what is left free for others."""
    elsewhere: tuple[OtherDisk, ...] = ()
    """Other disks with room, looked for only when this one has none; the roomiest first."""

    @property
    def lacking_bytes(self) -> int:
        return max(0, self.needed_bytes - self.free_bytes)


def disk_space(folder: Path, fetch_bytes: int) -> DiskSpace:
    disk = os.statvfs(_existing(folder))
    free = disk.f_bavail * disk.f_frsize
    # A full system disk breaks more than a fetch: a hundredth stays free, at most 1 GiB.
    kept = min(_MOST_KEPT_FREE_BYTES, int(disk.f_blocks * disk.f_frsize * _KEPT_FREE))
    needed = fetch_bytes + kept if fetch_bytes else 0
    elsewhere = _others(folder, needed) if needed > free else ()
    return DiskSpace(folder=str(folder), free_bytes=free, needed_bytes=needed, elsewhere=elsewhere)


def _others(folder: Path, needed_bytes: int) -> tuple[OtherDisk, ...]:
    ours, disks_by_device = _existing(folder).stat().st_dev, {}
    for mount in _mounts():
        try:
            device, disk = mount.stat().st_dev, os.statvfs(mount)
        except OSError:
            continue
        free = disk.f_bavail * disk.f_frsize
        if device != ours and device not in disks_by_device and free >= needed_bytes and not disk.f_flag & os.ST_RDONLY:
            disks_by_device[device] = OtherDisk(folder=str(mount), free_bytes=free, writable=os.access(mount, os.W_OK))
    return tuple(sorted(disks_by_device.values(), key=lambda elsewhere: -elsewhere.free_bytes)[:3])


def _mounts() -> list[Path]:
    try:
        lines = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []
    fields = [line.split() for line in lines]
    real = (
        mount_entry
        for mount_entry in fields
        if len(mount_entry) > 2 and (mount_entry[0].startswith("/dev/") or mount_entry[2] in _SHARED)
    )
    return [Path(_unescaped(mount_entry[1])) for mount_entry in real]


def _unescaped(text: str) -> str:
    """/proc/mounts writes spaces and tabs as octal."""
    return text.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())


_COMPANION = re.compile(
    # Configuration, tokenizer, template and the model's own code: what engines open beside the weights.
    r"([^/]+\.(json|jinja|py|model|tiktoken|txt)|additional_chat_templates/[^/]+\.jinja)"
)
_NO_COMPANION = re.compile(
    r"(pytorch_model|tf_model|flax_model|onnx|training_args|optimizer|requirements|LICEN[SC]E).*"
)

State = Literal["here", "begun", "absent"]


class NeededFile(Part):
    """One file that an engine needs."""

    name: str
    """Path inside the repository."""
    size_bytes: int
    """Length, as the hub lists it."""
    hash: str | None
    """`sha256:HEX`, or `git:HEX` for files that git itself holds; None if the hub does not say."""
    state: State
    """here, begun or absent on this disk."""
    here_bytes: int
    """How much of it is on this disk."""


class FetchNeed(Part):
    """What a fetch would bring."""

    source: str
    """What the caller named."""
    repository: str
    """owner/name."""
    revision: str
    """The commit; whatever branch was named, this is what is fetched."""
    format: Literal["gguf", "safetensors"]
    """What the weights are stored in."""
    files: tuple[NeededFile, ...]
    """Small ones first, so that what holds all weights holds everything."""
    path: str
    """What an engine will be told: the first GGUF file, or the folder."""
    room: DiskSpace
    """The disk that it goes to."""

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def here_bytes(self) -> int:
        return sum(file.here_bytes for file in self.files)

    @property
    def missing_bytes(self) -> int:
        return self.size_bytes - self.here_bytes


@dataclass(frozen=True)
class FetchSurvey:
    """A need, with what is held open to fill it."""

    need: FetchNeed
    repository: Repository
    layout: FetchLayout
    listed: tuple[ListedFile, ...]


def fetch_need(
    source: str, *, revision: str | None = None, folder: Path | None = None, hub: Hub | None = None
) -> FetchNeed:
    """What `fetch` would do; asks the hub for its listing and reads nothing else."""
    surveyed = survey(source, revision, folder, hub or Hub.of_this_machine(), Traffic())
    surveyed.repository.close()
    return surveyed.need


def survey(source: str, revision: str | None, folder: Path | None, hub: Hub, traffic: Traffic) -> FetchSurvey:
    """`revision` is the commit to take, where the source names a branch that may have moved since it was read."""
    named = _named(source)
    if hub.offline:
        raise ReadError(f"{source} cannot be fetched: HF_HUB_OFFLINE is set", hint="unset HF_HUB_OFFLINE")
    repository = Repository(hub, named.repo, revision or named.revision, traffic)
    try:
        choice, listed = needed_files(repository.files, named.quant, named.repo)
        layout = (
            cache_layout(named.repo, repository.revision, named.revision or "main")
            if folder is None
            else folder_layout(folder)
        )
        files = tuple(_needed(layout, file) for file in listed)
        missing = sum(file.size_bytes - file.here_bytes for file in files)
        found = FetchNeed(
            source=source,
            repository=named.repo,
            revision=repository.revision,
            format=choice.format,
            files=files,
            path=str(layout.folder / choice.engine_name),
            room=disk_space(layout.root, missing),
        )
    except BaseException:
        repository.close()
        raise
    return FetchSurvey(found, repository, layout, tuple(listed))


def needed_files(
    files: Mapping[str, ListedFile], quant: str | None, where: str
) -> tuple[FileSelection, list[ListedFile]]:
    """The weights of one artifact and what engines open beside them; a GGUF file needs nothing beside it."""
    choice = choose(files, quant, where)
    if choice.format == "config":
        raise ReadError(f"{where} has no weights to fetch, only a configuration", hint=f"upright plan {where}")
    beside = [] if choice.format == "gguf" else [name for name in files if is_companion(name)]
    return choice, [files[name] for name in _small_first(beside, choice.files)]


def _small_first(companions: Iterable[str], weights: Iterable[str]) -> list[str]:
    weights = list(weights)
    return [*sorted(set(companions) - set(weights)), *weights]


def is_companion(name: str) -> bool:
    """Whether engines open it beside the weights: configuration, tokenizer, template, the model's own code."""
    return bool(_COMPANION.fullmatch(name)) and not _NO_COMPANION.fullmatch(name)


def _named(source: str) -> HubReference:
    if Path(source).expanduser().exists():
        raise UsageError(f"{source} is on this disk already", hint=f"upright up {source}")
    named = parse_hub_reference(source)
    if named is None and (repository := catalogued_repository(source)) is not None:
        named = parse_hub_reference(repository)
    if named is None:
        close = ", ".join(catalog.near("models", source, 6))
        raise UsageError(
            f"{source} is no repository and not in the catalogue",
            hint=f"{f'near: {close}; or ' if close else ''}name owner/repo[@revision][:QUANT], or one of: "
            "upright catalog list models",
        )
    return named


def _needed(layout: FetchLayout, file: ListedFile) -> NeededFile:
    here, partial = layout.whole(file), layout.partial(file)
    begun = 0 if here else partial.fetched_bytes()
    return NeededFile(
        name=file.name,
        size_bytes=file.size_bytes,
        hash=f"sha256:{file.sha256}" if file.sha256 else f"git:{file.git_id}" if file.git_id else None,
        state="here" if here else "begun" if begun else "absent",
        here_bytes=file.size_bytes if here else begun,
    )
