"""What is long or many takes no longer than it should: a bundle is somebody else's."""

from __future__ import annotations

import time

import pytest

from tests.unit.evidence.share.tampering import copied, encoded, seal
from upright.evidence.bundle.redacting import KnownIdentities, Redactor
from upright.evidence.share.statement import identity_of, read_statement
from upright.evidence.share.verifying import verify

LONG = {
    "labels without an end": "a." * 500_000,
    "labels after an at": "a@" + "a." * 500_000,
    "keys that only begin": "-----BEGIN PRIVATE KEY-----" * 40_000,
    "hexadecimal": ("a:a:" + "a" * 30 + " ") * 30_000,
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_redaction_takes_time_by_length_alone(text: str) -> None:
    redactor = Redactor(KnownIdentities())
    began = time.process_time()
    assert redactor.text(text) == text
    assert time.process_time() - began < 5, "seconds for a megabyte; hours while it was quadratic"


def test_redaction_still_takes_them_out() -> None:
    key = "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----"
    for text, clean in (
        (f"-----BEGIN PRIVATE KEY----- {key} end", "-----BEGIN PRIVATE KEY----- [redacted] end"),
        ("mail to <ada.l+x@mail.example.com>.", "mail to <[mail]>."),
        (f"{'a' * 300}@example.org", "[mail]"),
        ("at 2606:4700:4700::1111, 12:34:56", "at [address], 12:34:56"),
        ("at 2606:4700:4700:0:0:0:0:1111", "at [address]"),
    ):
        assert Redactor(KnownIdentities()).text(text) == clean


def test_a_bundle_with_a_text_that_no_record_has() -> None:
    bundle = copied()
    bundle["predicate"]["records"]["plan"]["kv"]["formula"] = "a." * 500_000
    seal(bundle)
    content = encoded(bundle)
    broken = verify(read_statement(content, "it"), identity_of(content)).broken
    assert [(check.code, "4,096 characters" in check.reason) for check in broken] == [("redaction", True)]
