"""Refuses an address that carries a password: addresses go into records, file names and messages."""

from __future__ import annotations

from upright.base.errors import UsageError


def without_credentials(url: str) -> str:
    after_scheme = url.partition("://")[2] or url
    if "@" in after_scheme.partition("/")[0]:
        raise UsageError(
            "the address has a user's name or password in it, and addresses are kept in records and shown",
            hint="leave out what stands before the @; a key goes into a file (--key-file) or a variable (--key-env)",
        )
    return url
