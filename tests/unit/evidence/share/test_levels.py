"""What is left out is not proven: a bundle that brings less is worth less."""

from __future__ import annotations

import pytest

from tests.unit.evidence.share.tampering import Tree, cells, claim_again, copied, encoded, seal
from upright.evidence.share.checks import Verification
from upright.evidence.share.statement import identity_of, read_statement
from upright.evidence.share.verifying import verify


def judged(bundle: Tree) -> Verification:
    content = encoded(bundle)
    return verify(read_statement(content, "it"), identity_of(content))


def outcomes(verification: Verification) -> dict[str, str]:
    return {check.code: check.outcome for check in verification.checks}


def test_a_cell_without_samples_is_a_claim() -> None:
    bundle = copied()
    cell = cells(bundle)[0]
    cell["samples"], cell["output_tokens_per_second"] = None, 99_999.0
    seal(bundle)
    claim_again(bundle)
    verification = judged(bundle)
    assert (verification.level, outcomes(verification)["samples"]) == ("claimed", "unknown"), verification.broken


def test_another_version_of_the_detectors_hides_nothing() -> None:
    bundle = copied(7)
    marked = next(cell for cell in cells(bundle) if cell["marks"])
    marked["marks"] = []
    bundle["predicate"]["detectors"]["upright"] = "0.0.1"
    seal(bundle)
    claim_again(bundle)
    verification = judged(bundle)
    assert (verification.level, outcomes(verification)["marks"]) == ("claimed", "unknown"), verification.broken


def test_another_version_that_marked_the_same_is_as_good() -> None:
    bundle = copied(7)
    bundle["predicate"]["detectors"]["upright"] = "0.0.1"
    assert judged(bundle).level == "consistent"


@pytest.mark.parametrize("left_out", [("box",), ("model",), ("plan",), ("box", "model", "plan")], ids="-".join)
def test_without_the_records_that_physics_needs_it_is_a_claim(left_out: tuple[str, ...]) -> None:
    """Its plan goes with what it was made from, and what was measured of it goes with the plan."""
    bundle = copied()
    for kind in {*left_out, "plan", "residuals"}:
        del bundle["predicate"]["records"][kind]
    verification = judged(bundle)
    assert (verification.level, outcomes(verification)["summary"]) == ("claimed", "unknown"), verification.broken


def test_headlines_of_a_publication_are_not_judged() -> None:
    bundle = copied()
    bundle["predicate"]["source"] = {"title": "a post", "at": "2026-11-01", "sha256": "0" * 64}
    bundle["predicate"]["headlines"][0]["figure"] = 99_999.0
    verification = judged(bundle)
    assert (verification.level, outcomes(verification)["headline"]) == ("claimed", "unknown"), verification.broken
