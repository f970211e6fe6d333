"""A folder and a number of bytes -> whether its disk has room, and which other disk has."""

from __future__ import annotations

import os
from pathlib import Path

from upright.base.units import GIB
from upright.facts.records.base import Part

_SHARED = frozenset({"9p", "beegfs", "ceph", "cifs", "lustre", "nfs", "nfs4", "virtiofs", "zfs"})
"""File systems whose source is no device of this machine, and which hold weights nevertheless."""
_KEPT_FREE = 0.01
_MOST_KEPT_FREE_BYTES = GIB


class Elsewhere(Part):
    """Another disk that has room."""

    folder: str
    """Where it is mounted."""
    free_bytes: int
    """What a user may still write there."""
    writable: bool
    """Whether this user may write in that folder itself."""


class Room(Part):
    """What a disk has for us."""

    folder: str
    """Where the files go."""
    free_bytes: int
    """What a user may still write there."""
    needed_bytes: int
    """What is still to be fetched, and what is left free for others."""
    elsewhere: tuple[Elsewhere, ...] = ()
    """Other disks with room, looked for only when this one has none; the roomiest first."""

    @property
    def lacking_bytes(self) -> int:
        return max(0, self.needed_bytes - self.free_bytes)


def room_for(folder: Path, fetch_bytes: int) -> Room:
    disk = os.statvfs(_existing(folder))
    free = disk.f_bavail * disk.f_frsize
    # A full system disk breaks more than a fetch: a hundredth stays free, at most 1 GiB.
    kept = min(_MOST_KEPT_FREE_BYTES, int(disk.f_blocks * disk.f_frsize * _KEPT_FREE))
    needed = fetch_bytes + kept if fetch_bytes else 0
    elsewhere = _others(folder, needed) if needed > free else ()
    return Room(folder=str(folder), free_bytes=free, needed_bytes=needed, elsewhere=elsewhere)


def _others(folder: Path, needed_bytes: int) -> tuple[Elsewhere, ...]:
    ours, disks_by_device = _existing(folder).stat().st_dev, {}
    for mount in _mounts():
        try:
            device, disk = mount.stat().st_dev, os.statvfs(mount)
        except OSError:
            continue
        free = disk.f_bavail * disk.f_frsize
        if device != ours and device not in disks_by_device and free >= needed_bytes and not disk.f_flag & os.ST_RDONLY:
            disks_by_device[device] = Elsewhere(folder=str(mount), free_bytes=free, writable=os.access(mount, os.W_OK))
    return tuple(sorted(disks_by_device.values(), key=lambda elsewhere: -elsewhere.free_bytes)[:3])


def _mounts() -> list[Path]:
    try:
        lines = Path("/proc/self/mounts").read_text().splitlines()
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
