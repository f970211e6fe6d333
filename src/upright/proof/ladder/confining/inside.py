"""A bundle from the prover -> walls, limits, a look at both from inside, and then the code or its judge.

Nothing foreign runs before the walls were tried; what they are is told once, through a pipe that is closed then.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import sys

from upright.proof.ladder.confining import syscalls
from upright.proof.ladder.confining.plain import READY
from upright.proof.ladder.confining.walls import NOBODY, dies_with_parent, enter, give_up_rights

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from upright.proof.ladder.confining.walls import WalledPlace

_GET_NO_NEW_PRIVILEGES, _GET_SECCOMP = 39, 21


def main(bundle: dict[str, Any]) -> None:
    channels = bundle["channels"]
    status = channels["status"]
    try:
        _settle(bundle, channels)
    except Exception as error:
        message = error.strerror if isinstance(error, OSError) else str(error)
        os.write(status, f"{message}\n".encode()[-400:])
        os._exit(1)
    os.write(status, READY)
    os.close(status)
    if bundle["trial"] is None:
        from upright.proof.ladder.confining import answering

        sys.path.insert(0, bundle["place"]["work"])
        answering.serve(channels["asks"], channels["answers"], bundle["files"])
    else:
        from upright.proof.ladder.confining import judging

        judging.judge(channels["asks"], channels["answers"], channels["verdict"], **bundle["trial"])


def _settle(bundle: dict[str, Any], channels: dict[str, int]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    dies_with_parent(libc)
    if select.select([channels.pop("lifeline")], [], [], 0)[0]:
        os._exit(1)  # it died before we asked to be told
    place: WalledPlace = bundle["place"]
    if bundle["walls"]:
        enter(libc, place, channels["held"])
    else:
        give_up_rights(libc)
        dies_with_parent(libc)
    _close_all_but(set(channels.values()))
    os.chdir(place["work"])
    for kind, most in bundle["limits"].items():
        resource.setrlimit(getattr(resource, kind), (most, most))
    syscalls.install(libc)
    _look(libc, place)


def _close_all_but(kept: set[int]) -> None:
    null = os.open("/dev/null", os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    first = 3
    for number in sorted(kept):
        os.closerange(first, number)
        first = number + 1
    os.closerange(first, 65_536)


def _look(libc: ctypes.CDLL, place: WalledPlace) -> None:
    """What would be wrong is an error, whatever the way that the walls were built."""
    expected = {path.split("/")[1] for path in (*place["shown"], *place["own"], *(path for path, _ in place["links"]))}
    if more := set(os.listdir("/")) - expected - {"proc", "dev"}:
        raise RuntimeError(f"the root holds {sorted(more)[0]}")
    if os.getresuid() != (NOBODY,) * 3 or os.getpid() > 8:
        raise RuntimeError(f"this is process {os.getpid()} of user {os.geteuid()}")
    if libc.prctl(_GET_NO_NEW_PRIVILEGES, 0, 0, 0, 0) != 1 or libc.prctl(_GET_SECCOMP, 0, 0, 0, 0) != 2:
        raise RuntimeError("no filter of system calls")
    for path, size in place["own"].items():
        facts = os.statvfs(path)
        if facts.f_blocks * facts.f_frsize > size:
            raise RuntimeError(f"{path} has no limit")
    for path in place["hidden"]:
        if os.listdir(path):
            raise RuntimeError(f"{path} is not empty")
    for path in ("/", *place["shown"], *place["hidden"]):
        if not os.statvfs(path).f_flag & os.ST_RDONLY:
            raise RuntimeError(f"{path} can be written")
    try:
        os.fork()
    except PermissionError:
        return
    os._exit(1)
