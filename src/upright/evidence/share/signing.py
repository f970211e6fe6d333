"""SSH signatures by the person's own ssh-keygen.

A signature proves who claims something, and never that it ran.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from upright.base.bounds.files import file_text, open_file
from upright.base.errors import RecordError, UsageError
from upright.base.untrusted_text import on_one_line
from upright.evidence.share.checks import Check, CheckMaker

BUNDLES, HEADS, CATALOGUES = "upright-bundle", "upright-index", "upright-catalog"
"""Namespaces: a signature of one kind is none of the other."""
LONGEST_SIGNATURE = 16 << 10
_SECONDS = 20
_GOOD = re.compile(r'^Good "[\w-]+" signature with [\w-]+ key (SHA256:[A-Za-z0-9+/]{43})\s*$', re.MULTILINE)
_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")
_KEY = re.compile(r"(?:^|\s)((?:ssh|ecdsa|sk)-[\w.@-]+ AAAA[A-Za-z0-9+/=]+)(?=\s|$)")
_LIMIT = re.compile(r"namespaces=|valid-after=|valid-before=|expiry-time=|@?cert-authority", re.IGNORECASE)
_LOOK = CheckMaker("signature")


def sign(file: Path, key: Path, namespace: str) -> Path:
    """Writes FILE.sig; a key with a passphrase is asked for it by ssh-keygen, or is in the agent."""
    if not key.exists():
        raise UsageError(f"there is no key {key}", hint="ssh-keygen -t ed25519 makes one")
    signature = signature_path(file)
    signature.unlink(missing_ok=True)
    done = subprocess.run(
        [_program(), "-q", "-Y", "sign", "-f", str(key), "-n", namespace, str(file)],
        capture_output=True, encoding="utf-8", errors="replace", check=False,
    )  # fmt: skip
    if done.returncode or not signature.exists():
        raise UsageError(f"{key} did not sign: {on_one_line(done.stderr)}", hint="ssh-keygen -Y sign says more")
    return signature


def signature_path(file: Path) -> Path:
    return file.with_name(f"{file.name}.sig")


def read_signature(file: Path) -> bytes:
    """No more of it than shows that it is none."""
    try:
        if not file.is_file():
            raise RecordError(f"{file} is refused: it is no file")
        with open_file(file) as content:
            return content.read(LONGEST_SIGNATURE + 1)
    except OSError as error:
        raise RecordError(f"{file} cannot be read: {error.strerror}") from None


def signer(content: bytes, signature: bytes, namespace: str) -> str:
    """The fingerprint of the key that signed exactly these bytes. RecordError if none did."""
    if len(signature) > LONGEST_SIGNATURE:
        raise RecordError("the signature is longer than any")
    with TemporaryDirectory() as folder:
        file = Path(folder) / "signature"
        file.write_bytes(signature)
        try:
            done = subprocess.run(
                [_program(), "-Y", "check-novalidate", "-n", namespace, "-s", str(file)],
                input=content, capture_output=True, check=False, timeout=_SECONDS,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise RecordError("ssh-keygen did not come to an end") from None
    good = _GOOD.search(done.stdout.decode(errors="replace"))
    if done.returncode or good is None:
        raise RecordError("the signature is not of these bytes")
    return good[1]


def fingerprints(file: Path) -> frozenset[str]:
    """Of the public keys in a file: one key, authorized_keys or allowed_signers."""
    try:
        text = file_text(file, errors="replace")
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from None
    prints = set()
    for key in _public_keys(text, file):
        done = subprocess.run(
            [_program(), "-l", "-f", "-"],
            input=key,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=_SECONDS,
        )
        prints |= set(_FINGERPRINT.findall(done.stdout))
    if not prints:
        raise UsageError(f"{file} holds no public key", hint="a line such as: ssh-ed25519 AAAA…")
    return frozenset(prints)


def _public_keys(text: str, file: Path) -> Iterator[str]:
    """One a line; what limits a key is not something that we can hold it to, so that it is refused and not ignored."""
    for number, entry in enumerate(text.splitlines(), 1):
        line = entry.strip()
        if not line or line.startswith(("#", "@revoked")):
            continue
        if (key := _KEY.search(line)) is None:
            continue
        if (limit := _LIMIT.search(line[: key.start()])) is not None:
            raise UsageError(
                f"{file}, line {number}: {limit[0]} is not understood here",
                hint="name plain public keys, without options",
            )
        yield key[1]


def checked_signature(content: bytes, signature: bytes | None, trusted: frozenset[str]) -> tuple[str | None, Check]:
    """Who signed, and what that is worth; unsigned is allowed unless a key was asked for."""
    if signature is None:
        look = _LOOK.broken("it is unsigned, and a key was asked for") if trusted else _LOOK.unknown("it is unsigned")
        return None, look
    try:
        fingerprint = signer(content, signature, BUNDLES)
    except RecordError as error:
        return None, _LOOK.broken(error.message)
    if trusted and fingerprint not in trusted:
        return fingerprint, _LOOK.broken(f"it is signed by {fingerprint}, not by a key that was asked for")
    return fingerprint, _LOOK.holds(f"signed by {fingerprint}: that says who, never that it ran")


def _program() -> str:
    program = shutil.which("ssh-keygen")
    if program is None:
        raise UsageError("ssh-keygen is not on the PATH", hint="it comes with OpenSSH: install openssh-client")
    return program
