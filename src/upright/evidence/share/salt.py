"""A machine -> a number for it that only its owner can make: the same box twice is one box, and nobody learns which."""

from __future__ import annotations

import hashlib
import secrets
from pathlib import Path

from upright.base.home import home, private
from upright.facts.store import write_atomically

_MACHINE = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))


def box_id() -> str | None:
    """None on a machine that has no number."""
    for file in _MACHINE:
        try:
            number = file.read_text().strip()
        except OSError:
            continue
        if number:
            return hashlib.sha256(f"{salt()} {number}".encode()).hexdigest()
    return None


def salt() -> str:
    """This person's secret, made on first use; it never leaves the machine."""
    file = home() / "sharing.salt"
    if not file.exists():
        private(file.parent)
        write_atomically(file, f"{secrets.token_hex(32)}\n".encode(), mode=0o600)
    return file.read_text().strip()
