"""A verified bundle -> a pointer to it, and a pointer -> the shard that it lies in.

Bundles lie wherever their authors keep them; an index holds pointers by digest. A shard is all of one (model, GPU,
count), and lies in one of 256 bins by the hash of that key.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from upright.base.bounds.bounded_json import parse_peer_json
from upright.base.bounds.errors import ExceededError
from upright.base.errors import RecordError
from upright.evidence.share.repeats import OpenedBundle
from upright.facts.records.base import Part, canonical
from upright.facts.records.names import SafeName

MOST_POINTERS = 1000
"""Of one file of a shard: some tens of kilobytes."""
_MOST_PLAIN_BYTES = 2 << 20
_UNSPELLED = re.compile(r"[^a-z0-9.]+")
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Pointer(Part):
    """Where a bundle is, and what it is about."""

    model: SafeName
    """Which model."""
    gpu: SafeName
    """The catalogue's row of the GPU, or its name; `cpu` without one."""
    gpus: int
    """How many."""
    engine: SafeName
    """Which engine."""
    engine_version: SafeName | None
    """Its version."""
    level: Literal["claimed", "consistent", "reproduced", "stale"]
    """What the index says that it is worth; whoever fetches it finds out."""
    tokens_per_second: float | None
    """Decode for one user, the best of its headlines; None if it claims none."""
    at: str
    """When its evidence was made."""
    identity: Digest
    """sha256 of the bundle."""
    url: SafeName
    """Where its author keeps it."""
    signer: SafeName | None
    """Its key's fingerprint."""
    revoked: str | None = None
    """Why it does not count any more; a pointer is never removed."""

    @property
    def key(self) -> str:
        return shard_key(self.model, self.gpu, self.gpus)


def shard_key(model: str, gpu: str | None, gpus: int) -> str:
    """One spelling: letters, digits and points, whatever people type."""
    plain = (_UNSPELLED.sub("-", name.lower()).strip("-") for name in (model, gpu or "cpu"))
    return "/".join((*plain, str(gpus)))


def bin_of(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:2]


def pointer_to(opened: OpenedBundle, url: str) -> Pointer:
    """RecordError of a bundle that is broken: an index has none."""
    verification, predicate = opened.verification, opened.statement.predicate
    if verification.level == "broken":
        raise RecordError(f"{opened.path} is broken: {verification.broken[0].reason}")
    rates = [headline.figure for headline in predicate.headlines if headline.metric == "user"]
    return Pointer(
        model=predicate.model.name, gpu=predicate.box.gpu or "cpu", gpus=predicate.box.gpus,
        engine=predicate.engine.name, engine_version=predicate.engine.version, level=verification.level,
        tokens_per_second=round(max(rates), 1) if rates else None, at=predicate.made_at,
        identity=verification.identity, url=url, signer=verification.signed_by,
    )  # fmt: skip


def packed(pointers: Sequence[Pointer]) -> bytes:
    """JSON lines, compressed: the same pointers give the same bytes."""
    plain = b"".join(canonical(pointer.model_dump(mode="json", exclude_none=True)) + b"\n" for pointer in pointers)
    return gzip.compress(plain, compresslevel=6, mtime=0)


def unpacked(content: bytes, where: str) -> tuple[Pointer, ...]:
    """Within bounds, whatever it unpacks to."""
    return tuple(pointer_of(line, where) for line in plain_bytes(content, where).splitlines())


def pointer_of(line: bytes, where: str) -> Pointer:
    try:
        pointer = Pointer.model_validate(
            {"engine_version": None, "tokens_per_second": None, "signer": None, **parse_peer_json(line)}
        )
        canonical(pointer.model_dump(mode="json"))
    except (ValueError, TypeError, ValidationError, ExceededError) as error:
        raise RecordError(f"{where} holds what is no pointer: {type(error).__name__}") from None
    return pointer


def plain_bytes(content: bytes, where: str) -> bytes:
    unpacking = zlib.decompressobj(wbits=31)
    try:
        plain = unpacking.decompress(content, _MOST_PLAIN_BYTES)
    except zlib.error as error:
        raise RecordError(f"{where} is not compressed as it should be: {error}") from None
    if unpacking.unconsumed_tail or not unpacking.eof:
        raise RecordError(f"{where} unpacks to more than any, or is cut short")
    return plain
