"""Files that somebody else may have written: regular ones, within a number of bytes; nothing waits for a writer.

The one door to them: `scripts/lint-text` shows that no other module opens a file to read it. What comes in the package
and what the kernel writes (/proc, /sys) needs no door.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

from upright.base.bounds.bounded_json import MOST_TEXT_BYTES, TOO_LONG
from upright.base.errors import UsageError

MOST_KEY_BYTES = 65_536
"""Of a key, a token, a name: anything that stands on a line."""
LOG_HEAD_BYTES = 16 << 20
"""Of a log, where only its beginning is asked for."""
_LONGEST_LOG_LINE = 10_000
"""Characters: patterns are tried at each of them."""
_HANDED_OVER = ("/dev/fd/", "/proc/self/fd/")
_NO_FILE = "it is no regular file"


def open_file(path: Path, *, own: bool = False) -> BufferedReader:
    """A file to read. OSError of a device, a pipe, a socket and a folder, whatever link leads there.

    Of a file of our *own*, which nobody links, a link is refused as well. What the shell hands over (/dev/stdin,
    /dev/fd/63 of `<(command)`) was meant, and is read as it comes.
    """
    name = os.fspath(path)
    handed_over = name == "/dev/stdin" or name.startswith(_HANDED_OVER)
    flags = os.O_RDONLY | _flag("O_BINARY", "O_CLOEXEC", *(["O_NOFOLLOW"] if own else []))
    flags |= 0 if handed_over else _flag("O_NONBLOCK")
    try:
        descriptor = os.open(name, flags)
    except OSError as error:
        told = {errno.ELOOP: "it is a link" if own else error.strerror, errno.ENXIO: _NO_FILE}
        raise OSError(error.errno, told.get(error.errno or 0, error.strerror), name) from None
    mode = os.fstat(descriptor).st_mode
    if not (stat.S_ISREG(mode) or (handed_over and not stat.S_ISDIR(mode))):
        os.close(descriptor)
        raise OSError(errno.ENXIO, _NO_FILE, name)
    return os.fdopen(descriptor, "rb")


def file_bytes(path: Path, most_bytes: int = MOST_TEXT_BYTES, *, own: bool = False) -> bytes:
    """All of it. OSError, too, if it is longer: nothing of it is read then."""
    with open_file(path, own=own) as file:
        if os.fstat(file.fileno()).st_size <= most_bytes and len(content := file.read(most_bytes + 1)) <= most_bytes:
            return content
    told = TOO_LONG if most_bytes == MOST_TEXT_BYTES else f"it is longer than {most_bytes:,} bytes"
    raise OSError(errno.EFBIG, told, os.fspath(path))


def file_text(path: Path, most_bytes: int = MOST_TEXT_BYTES, *, errors: str = "strict", own: bool = False) -> str:
    """UTF-8 whatever the locale, with line feeds alone. UnicodeDecodeError, a ValueError, if it is none."""
    return _plain_lines(file_bytes(path, most_bytes, own=own).decode("utf-8", errors))


def head_text(path: Path, most_bytes: int = LOG_HEAD_BYTES) -> str:
    """Its beginning, as much as is wanted, and of each line too; what is no UTF-8 is replaced."""
    with open_file(path) as file:
        text = _plain_lines(file.read(most_bytes).decode("utf-8", "replace"))
    return "\n".join(line[:_LONGEST_LOG_LINE] for line in text.split("\n"))


def file_lines(path: Path, longest_bytes: int = MOST_TEXT_BYTES, *, own: bool = False) -> Iterator[bytes]:
    """Line by line with what ends them, however many. OSError at a line that is longer than any."""
    with open_file(path, own=own) as file:
        while raw := file.readline(longest_bytes + 1):
            if len(raw) > longest_bytes:
                raise OSError(errno.EFBIG, f"a line of it is longer than {longest_bytes // 1_000_000} MB", str(path))
            yield raw


def take_lock(descriptor: int, *, shared: bool = False, wait: bool = False) -> bool:
    """The kernel's lock on an open file: false if another has it. It ends with its holder."""
    import fcntl  # what only knows runs where there is none

    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def open_lock(path: Path, mode: int = 0o600, *, own: bool = False) -> int:
    """The file that a lock is taken on, made if there is none."""
    return os.open(path, os.O_RDWR | os.O_CREAT | _flag("O_CLOEXEC", *(["O_NOFOLLOW"] if own else [])), mode)


def key_in(path: Path, *, own: bool = False) -> str:
    """A key or a token that stands alone in a file. UsageError if it cannot be one."""
    try:
        key = file_text(path, MOST_KEY_BYTES, errors="replace", own=own).strip()
    except OSError as error:
        raise UsageError(f"the key in {path} cannot be read: {error.strerror}") from None
    if not (key.isascii() and key.isprintable()):
        raise UsageError(f"what {path} holds is no key", hint="letters, digits and signs, on one line")
    return key


def _plain_lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _flag(*names: str) -> int:
    """Of `os.open`, as far as this system has them."""
    together = 0
    for name in names:
        together |= getattr(os, name, 0)
    return together
