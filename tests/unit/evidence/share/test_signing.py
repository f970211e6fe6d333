"""Signatures by the real ssh-keygen: who, and of exactly which bytes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.unit.evidence.share.tampering import FOLDER, copied, encoded, recorded
from upright.base.errors import RecordError, UsageError
from upright.evidence.share.opening import open_bundle
from upright.evidence.share.signing import BUNDLES, HEADS, fingerprints, sign, signature_path, signer


def keypair(folder: Path, name: str, kind: str = "ed25519") -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "", "-f", str(folder / name)], check=True)
    return folder / name


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return keypair(tmp_path, "key")


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    file = tmp_path / "one.bundle.json"
    file.write_bytes(recorded(FOLDER / "01.json.gz"))
    return file


def reasons(bundle: Path, **options: object) -> tuple[str, str]:
    verification = open_bundle(bundle, **options).verification  # type: ignore[arg-type]
    return verification.level, next(check.reason for check in verification.checks if check.code == "signature")


def test_who_signed_is_told(bundle: Path, key: Path) -> None:
    signature = sign(bundle, key, BUNDLES)
    public = key.with_suffix(".pub")
    (fingerprint,) = fingerprints(public)
    assert signature == signature_path(bundle)
    assert signer(bundle.read_bytes(), signature.read_bytes(), BUNDLES) == fingerprint
    level, reason = reasons(bundle, trusted=fingerprints(public))
    assert level == "consistent"
    assert reason == f"signed by {fingerprint}: that says who, never that it ran"
    anybody = ["ssh-keygen", "-Y", "check-novalidate", "-n", "upright-bundle", "-s", str(signature)]
    assert subprocess.run(anybody, input=bundle.read_bytes(), check=False, capture_output=True).returncode == 0


def test_unsigned_is_allowed_and_marked(bundle: Path, key: Path) -> None:
    assert reasons(bundle) == ("consistent", "it is unsigned")
    assert reasons(bundle, trusted=fingerprints(key.with_suffix(".pub")))[0] == "broken"


def test_a_signature_that_was_moved_from_another_bundle(bundle: Path, key: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.bundle.json"
    other.write_bytes(recorded(FOLDER / "02.json.gz"))
    shutil.copy(sign(other, key, BUNDLES), signature_path(bundle))
    assert reasons(bundle) == ("broken", "the signature is not of these bytes")


def test_what_was_changed_after_it_was_signed(bundle: Path, key: Path) -> None:
    sign(bundle, key, BUNDLES)
    changed = copied()
    changed["predicate"]["made_at"] = "2027-01-01T00:00:00.000+00:00"
    bundle.write_bytes(encoded(changed))
    assert reasons(bundle) == ("broken", "the signature is not of these bytes")


def test_a_signature_of_an_index_is_none_of_a_bundle(bundle: Path, key: Path) -> None:
    sign(bundle, key, HEADS)
    assert reasons(bundle) == ("broken", "the signature is not of these bytes")


def test_another_key_than_was_asked_for(bundle: Path, key: Path, tmp_path: Path) -> None:
    sign(bundle, key, BUNDLES)
    other = keypair(tmp_path, "other")
    level, reason = reasons(bundle, trusted=fingerprints(other.with_suffix(".pub")))
    assert level == "broken"
    assert "not by a key that was asked for" in reason


@pytest.mark.parametrize(
    "signature", [b"", b"no signature", b"x" * 100_000, b"-----BEGIN SSH SIGNATURE-----\n\x1b[2J\n"]
)
def test_what_is_no_signature(bundle: Path, signature: bytes) -> None:
    signature_path(bundle).write_bytes(signature)
    level, reason = reasons(bundle)
    assert level == "broken"
    assert "\x1b" not in reason


def test_keys_of_others_are_read_from_any_list(tmp_path: Path, key: Path) -> None:
    other = keypair(tmp_path, "other", "ecdsa")
    lines = [f"someone@example {file.with_suffix('.pub').read_text()}" for file in (key, other)]
    (tmp_path / "allowed_signers").write_text("# mine\n" + "".join(lines))
    assert len(fingerprints(tmp_path / "allowed_signers")) == 2
    (tmp_path / "empty").write_text("nothing\n")
    with pytest.raises(UsageError, match="no public key"):
        fingerprints(tmp_path / "empty")


def test_a_key_that_is_not_there(bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no key"):
        sign(bundle, tmp_path / "none", BUNDLES)
    with pytest.raises(RecordError, match="there is no signature"):
        open_bundle(bundle, signature=tmp_path / "none.sig")


def test_a_signature_is_read_no_further_than_it_may_be_long(bundle: Path) -> None:
    with signature_path(bundle).open("wb") as file:
        file.truncate(1 << 40)
    assert reasons(bundle) == ("broken", "the signature is longer than any")
    signature_path(bundle).unlink()
    signature_path(bundle).mkdir()
    with pytest.raises(RecordError, match="no file"):
        open_bundle(bundle)


def test_keys_that_were_struck_out_are_none(tmp_path: Path, key: Path) -> None:
    public = key.with_suffix(".pub").read_text()
    other = keypair(tmp_path, "other").with_suffix(".pub").read_text()
    (tmp_path / "keys").write_text(f"# {public}@revoked * {public}   # {public}ada {other}")
    assert fingerprints(tmp_path / "keys") == fingerprints(tmp_path / "other.pub")
    (tmp_path / "keys").write_text(f"# {public}@revoked * {public}")
    with pytest.raises(UsageError, match="no public key"):
        fingerprints(tmp_path / "keys")


@pytest.mark.parametrize(
    "limit",
    ['namespaces="git"', "valid-after=20200101", 'valid-before="20200101"', "cert-authority", "@cert-authority *"],
)
def test_a_key_with_limits_is_refused(tmp_path: Path, key: Path, limit: str) -> None:
    (tmp_path / "keys").write_text(f"ada {limit} {key.with_suffix('.pub').read_text()}")
    with pytest.raises(UsageError, match=r"line 1: .* is not understood here"):
        fingerprints(tmp_path / "keys")
