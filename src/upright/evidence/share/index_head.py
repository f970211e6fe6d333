"""An index's head: which bins it has, by their hashes, under a version that only rises, signed in the same file.

head.json                     {"signed": {version, at, bins, …}, "signature": SSH signature of the canonical "signed"}
bins/XX-SHA256.json.gz        key -> the files of its shard, by hash
shards/SHA256.jsonl.gz        pointers; never changed, only followed by others
"""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from upright.base.bounds.bounded_json import parse_peer_json
from upright.base.bounds.errors import ExceededError
from upright.base.errors import RecordError
from upright.evidence.share.pointers import Digest, plain_bytes
from upright.evidence.share.seals import sealed_file, unsealed
from upright.evidence.share.signing import HEADS
from upright.facts.records.base import Part, canonical

HEAD = "head.json"
MOST_HEAD_BYTES = 64 << 10
MOST_FILE_BYTES = 256 << 10


class IndexHead(Part):
    """What a keeper signs."""

    format: Literal[1] = 1
    """Of the index."""
    version: int
    """One more with each build; a reader takes no lower one again."""
    at: str
    """When it was built (UTC, ISO 8601)."""
    pointers: int
    """How many in all."""
    revoked: int
    """How many of them do not count any more; never fewer than before."""
    bins: dict[str, Digest]
    """The two first digits of a key's hash -> the sha256 of its bin."""


class ShardFile(Part):
    """One file of a shard."""

    sha256: Digest
    """Its name and its hash."""
    pointers: int
    """How many it holds."""


class Bin(Part):
    """The shards whose keys begin with the same hash."""

    shards: dict[str, tuple[ShardFile, ...]]
    """Key -> its files, the oldest first; all but the last are full."""


def signed_head(head: IndexHead, key: Path | None) -> bytes:
    return sealed_file(head, key, HEADS)


def read_head(content: bytes, where: str, trusted: frozenset[str] | None) -> IndexHead:
    """The head, if a trusted key signed it; None trusts the folder that it lies in."""
    return unsealed(content, IndexHead, where, trusted, HEADS, "head of an index")


def packed_bin(content: Bin) -> bytes:
    return gzip.compress(canonical(content.model_dump(mode="json")), compresslevel=6, mtime=0)


def read_bin(content: bytes, where: str) -> Bin:
    try:
        return Bin.model_validate(parse_peer_json(plain_bytes(content, where)))
    except (ValueError, ValidationError, ExceededError):
        raise RecordError(f"{where} is no bin of an index") from None


def bin_path(number: str, sha256: str) -> str:
    return f"bins/{number}-{sha256}.json.gz"


def shard_path(sha256: str) -> str:
    return f"shards/{sha256}.jsonl.gz"


def refuse_wrong_hash(content: bytes, sha256: str, where: str) -> bytes:
    if hashlib.sha256(content).hexdigest() != sha256:
        raise RecordError(f"{where} is refused: it is not what the signed head names")
    return content
