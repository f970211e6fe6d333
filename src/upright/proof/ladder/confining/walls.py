"""A list of what may be seen -> this process, in a place that holds nothing else: own namespaces, an own root.

Returns in a child: the process that called it waits for it and ends as it ended. Root needs no user namespace and
becomes nobody; anybody else is nobody in a user namespace of his own.
"""

from __future__ import annotations

import ctypes
import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypedDict

    class WalledPlace(TypedDict):
        """What is behind the walls."""

        shown: list[str]
        """Folders and files of the host, at their own paths, for reading."""
        hidden: list[str]
        """Folders below those that are empty here."""
        links: list[tuple[str, str]]
        """Path and target."""
        own: dict[str, int]
        """Empty folders of its own, and their sizes in bytes."""
        files: int
        """How many files each of those may hold."""
        work: str
        """The one that code and its files are in."""


NOBODY = 65_534
HIDDEN_BYTES = 4_096
DEVICES = ("null", "zero", "full", "random", "urandom")
_NEW_USER, _NEW_MOUNT, _NEW_PID, _NEW_NET = 0x10000000, 0x00020000, 0x20000000, 0x40000000
_NEW_IPC, _NEW_UTS, _NEW_CGROUP = 0x08000000, 0x04000000, 0x02000000
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _BIND, _REC, _PRIVATE = 1, 2, 4, 8, 4096, 16384, 1 << 18
_DETACH = 2
_ATTRIBUTE_RDONLY, _ATTRIBUTE_NOSUID, _ATTRIBUTE_NODEV = 1, 2, 4
_RECURSIVE, _HERE = 0x8000, -100
_MOUNT_SETATTR = 442
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_SET_DEATH_SIGNAL, _SET_NO_NEW_PRIVILEGES, _SIGKILL = 1, 38, 9
_CAPABILITY_VERSION_3 = 0x20080522


def enter(libc: ctypes.CDLL, place: WalledPlace, held: int) -> None:
    """`held` stays open in every process until it ends."""
    uid, gid = os.geteuid(), os.getegid()
    apart = _NEW_MOUNT | _NEW_PID | _NEW_NET | _NEW_IPC | _NEW_UTS | _NEW_CGROUP
    _must(libc.unshare(apart if uid == 0 else apart | _NEW_USER), "unshare")
    if uid != 0:
        for name, content in (
            ("setgroups", "deny"),
            ("uid_map", f"{NOBODY} {uid} 1"),
            ("gid_map", f"{NOBODY} {gid} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(content)
    _wait_for_child(held)
    dies_with_parent(libc)
    _build(libc, place)
    _must(libc.sethostname(b"sandbox", 7), "sethostname")
    if uid == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    give_up_rights(libc)
    dies_with_parent(libc)  # Guard: another uid clears it (prctl(2)).
    _wait_for_child(held)


def give_up_rights(libc: ctypes.CDLL) -> None:
    """No capability, and none to be gained by starting a program."""
    header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
    _must(libc.capset(header, bytes(24)), "capset")
    _must(libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "no_new_privs")


def dies_with_parent(libc: ctypes.CDLL) -> None:
    _must(libc.prctl(_SET_DEATH_SIGNAL, _SIGKILL, 0, 0, 0), "PR_SET_PDEATHSIG")


def _wait_for_child(held: int) -> None:
    """Returns in the child; here the child's end is ours, and for the first process of the place everybody's."""
    if (child := os.fork()) == 0:
        return
    os.closerange(0, held)
    os.closerange(held + 1, 1 << 16)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os._exit(code if code >= 0 else 128 - code)


def _build(libc: ctypes.CDLL, place: WalledPlace) -> None:
    """A new root beside the old one, then the old one is let go (as bubblewrap does it)."""
    _mount(libc, None, "/", None, _REC | _PRIVATE)
    _mount(libc, "none", "/tmp", "tmpfs", _NOSUID | _NODEV, "size=64k,mode=755")
    os.mkdir("/tmp/new")
    os.mkdir("/tmp/old")
    _pivot(libc, "/tmp", "/tmp/old")
    os.chdir("/")
    _mount(libc, "none", "/new", "tmpfs", _NOSUID | _NODEV, f"size=1m,nr_inodes={place['files']},mode=755")
    for path in (*place["own"], "/proc", "/dev"):
        os.makedirs(f"/new{path}", exist_ok=True)
    for path, size in place["own"].items():  # before what is shown: an interpreter may lie in /tmp
        options = f"size={size},nr_inodes={place['files']},mode=700,uid={NOBODY},gid={NOBODY}"
        _mount(libc, "none", f"/new{path}", "tmpfs", _NOSUID | _NODEV | _NOEXEC, options)
    for path, target in place["links"]:
        os.makedirs(os.path.dirname(f"/new{path}"), exist_ok=True)
        os.symlink(target, f"/new{path}")
    for path in place["shown"]:
        _show(libc, path, _ATTRIBUTE_RDONLY | _ATTRIBUTE_NOSUID | _ATTRIBUTE_NODEV)
    for path in place["hidden"]:
        _mount(libc, "none", f"/new{path}", "tmpfs", _RDONLY | _NOSUID | _NODEV, f"size={HIDDEN_BYTES},nr_inodes=1")
    for name in DEVICES:
        _show(libc, f"/dev/{name}", _ATTRIBUTE_NOSUID)
    _set(libc, "/new", _ATTRIBUTE_RDONLY | _ATTRIBUTE_NOSUID | _ATTRIBUTE_NODEV, 0)
    os.chdir("/new")
    _pivot(libc, ".", ".")
    _must(libc.umount2(b".", _DETACH), "umount")
    os.chdir(place["work"])


def _show(libc: ctypes.CDLL, path: str, attributes: int) -> None:
    """With all that is mounted below it, each of them read-only."""
    source, target = f"/old{path}", f"/new{path}"
    os.makedirs(target if os.path.isdir(source) else os.path.dirname(target), exist_ok=True)
    if not os.path.isdir(source):
        open(target, "w").close()
    _mount(libc, source, target, None, _BIND | _REC)
    _set(libc, target, attributes, _RECURSIVE)


def _set(libc: ctypes.CDLL, path: str, attributes: int, how: int) -> None:
    # struct mount_attr of mount_setattr(2), Linux 5.12: to set, to clear, propagation, user namespace
    wanted = struct.pack("QQQQ", attributes, 0, 0, 0)
    _must(libc.syscall(_MOUNT_SETATTR, _HERE, path.encode(), how, wanted, len(wanted)), f"mount_setattr {path}")


def _mount(
    libc: ctypes.CDLL, source: str | None, target: str, kind: str | None, flags: int, options: str | None = None
) -> None:
    source_, kind_, options_ = (None if text is None else text.encode() for text in (source, kind, options))
    _must(libc.mount(source_, target.encode(), kind_, flags, options_), f"mount {target}")


def _pivot(libc: ctypes.CDLL, new: str, old: str) -> None:
    number = _PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise OSError(f"no number of pivot_root for {os.uname().machine}")
    _must(libc.syscall(number, new.encode(), old.encode()), "pivot_root")


def _must(code: Any, what: str) -> None:
    if code != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
