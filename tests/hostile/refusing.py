"""A command -> the same on a kernel that gives it less: `python refusing.py namespaces|5.11 COMMAND...`.

A filter of system calls like Docker's own refuses unshare, and clone with a new namespace; or there is no
mount_setattr, which came with Linux 5.12.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

_CALLS = {"x86_64": (272, 56), "aarch64": (97, 220)}  # unshare, clone
_NAMESPACES = 0x7E020000


def _step(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, operand)


def refuse(what: str) -> None:
    unshare, clone = _CALLS[os.uname().machine]
    refused, allowed, absent = 0x00050001, 0x7FFF0000, 0x00050026
    old = (_step(0x20, 0), _step(0x15, 442, 0, 1), _step(0x06, absent), _step(0x06, allowed))
    program = b"".join(
        old
        if what == "5.11"
        else (
            _step(0x20, 0),
            _step(0x15, 435, 0, 1),  # clone3 looks into memory
            _step(0x06, absent),
            _step(0x15, unshare, 3, 0),
            _step(0x15, clone, 0, 3),
            _step(0x20, 16),
            _step(0x45, _NAMESPACES, 0, 1),
            _step(0x06, refused),
            _step(0x06, allowed),
        )
    )
    libc, held = ctypes.CDLL(None, use_errno=True), ctypes.create_string_buffer(program, len(program))
    libc.prctl(38, 1, 0, 0, 0)
    head = struct.pack("HP", len(program) // 8, ctypes.addressof(held))
    assert libc.prctl(22, 2, ctypes.c_char_p(head), 0, 0) == 0, os.strerror(ctypes.get_errno())


if __name__ == "__main__":
    refuse(sys.argv[1])
    os.execv(sys.argv[2], sys.argv[2:])
