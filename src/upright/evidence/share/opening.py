"""Opens a bundle: read, verified, and counted with those that repeat it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from upright.base.errors import RecordError, UprightError
from upright.evidence.share.repeats import OpenedBundle, count_repeats
from upright.evidence.share.signing import checked_signature, read_signature, signature_path
from upright.evidence.share.statement import identity_of, read_bytes, read_statement
from upright.evidence.share.verifying import read_claim, verify


def open_bundle(
    path: Path,
    *,
    signature: Path | None = None,
    trusted: frozenset[str] = frozenset(),
    repeats: Sequence[Path] = (),
) -> OpenedBundle:
    """RecordError if it is no bundle at all; one that does not hold is *broken*, and says why."""
    content = read_bytes(path)
    statement = read_statement(content, str(path))
    kept = signature or signature_path(path)
    if signature is not None and not signature.exists():
        raise RecordError(f"there is no signature {signature}")
    signed = read_signature(kept) if kept.exists() else None
    fingerprint, check = checked_signature(content, signed, trusted)
    verification = verify(statement, identity_of(content), signed_by=fingerprint, more=(check,))
    try:
        benchmarks = read_claim(statement).benchmarks
    except UprightError:
        benchmarks = ()
    opened = OpenedBundle(path, statement, verification, benchmarks)
    if not repeats:
        return opened
    others = count_repeats(opened, [open_bundle(other) for other in repeats], trusted)
    counted = verification.model_copy(
        update={
            "level": "reproduced" if others.known and verification.level == "consistent" else verification.level,
            "reproduced_by": others.known, "unverified_signers": others.unverified,
            "checks": (*verification.checks, *others.looks),
        }
    )  # fmt: skip
    return replace(opened, verification=counted)
