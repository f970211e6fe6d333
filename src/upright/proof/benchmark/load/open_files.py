"""Raises the limit of open files for many streams.

A stream is a file to the kernel, and the usual limit of a shell (1,024) is less than a benchmark opens.
"""

from __future__ import annotations

import contextlib
import errno

from upright.base.errors import HostError

_ENOUGH = 65_536
"""For requests that arrive whatever is still running: nobody knows how many of them there will be."""
_OTHERS = 256
"""Files that are open beside the streams."""


def allow_open_files(streams: int = 0) -> None:
    """Raise the soft limit as far as the hard one lets it; what is still too little is told when it shows."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(_ENOUGH, streams + _OTHERS)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError):  # a kernel may have a limit of its own below the hard one
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def out_of_files_error(error: OSError, opened: int) -> HostError | None:
    """What to say if it is this machine that opens no more; None if it is somebody else's error."""
    if error.errno not in (errno.EMFILE, errno.ENFILE):
        return None
    import resource

    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return HostError(
        f"this machine opens no more connections: {opened:,} are open, and ulimit -n is {limit:,}",
        hint="raise the hard limit (ulimit -Hn, LimitNOFILE=, docker --ulimit nofile=), or fewer at once",
    )
