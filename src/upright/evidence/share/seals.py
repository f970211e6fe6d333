"""Signed JSON files: content and signature in one, read only if a pinned key signed it."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from pydantic import ValidationError

from upright.base.bounds.bounded_json import parse_peer_json
from upright.base.bounds.errors import ExceededError
from upright.base.bounds.files import file_text
from upright.base.errors import RecordError
from upright.evidence.share.signing import sign, signer
from upright.facts.records.base import Part, canonical

P = TypeVar("P", bound=Part)


class SealedFile(Part):
    """The file."""

    signed: dict[str, Any]
    """What is signed, as canonical JSON."""
    signature: str | None
    """By ssh-keygen; None of an index that nobody signs, which only a folder of one's own may be."""


def sealed_file(content: Part, key: Path | None, namespace: str) -> bytes:
    signature = None
    if key is not None:
        with TemporaryDirectory() as folder:
            file = Path(folder) / "head"
            file.write_bytes(canonical(content.model_dump(mode="json")))
            signature = file_text(sign(file, key, namespace))
    return canonical(SealedFile(signed=content.model_dump(mode="json"), signature=signature).model_dump(mode="json"))


def unsealed(raw: bytes, shape: type[P], where: str, trusted: frozenset[str] | None, namespace: str, noun: str) -> P:
    """RecordError if it is no such thing, or if no trusted key signed it; None trusts the folder that it lies in."""
    try:
        told = SealedFile.model_validate(parse_peer_json(raw))
        content = shape.model_validate(told.signed)
        signed = canonical(content.model_dump(mode="json"))
    except (ValueError, ValidationError, ExceededError):
        raise RecordError(f"{where} is no {noun}") from None
    if trusted is None:
        return content
    if told.signature is None:
        raise RecordError(f"{where} is refused: it is unsigned")
    who = signer(signed, told.signature.encode(errors="replace"), namespace)
    if who not in trusted:
        raise RecordError(f"{where} is refused: {who} signed it, and that key is not pinned")
    return content
