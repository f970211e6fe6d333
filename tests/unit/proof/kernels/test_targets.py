from __future__ import annotations

import pytest

from upright.base.errors import UsageError
from upright.proof.kernels.targets import of_capability, target


@pytest.mark.parametrize("name", ["sm_120", "sm120", "SM_120a", "120", "12.0", "rtx-pro-6000-server"])
def test_every_spelling_of_a_target(name: str) -> None:
    found = target(name)
    assert (found.name, found.compute_capability, found.limit_bytes) == ("sm_120", "12.0", 101376)


@pytest.mark.parametrize(
    ("name", "limit_bytes"),
    [
        ("sm_80", 166912),
        ("sm_86", 101376),
        ("sm_89", 101376),
        ("sm_90", 232448),
        ("sm_100", 232448),
        ("sm_121", 101376),
    ],
)
def test_limits_come_from_the_catalogue(name: str, limit_bytes: int) -> None:
    assert target(name).limit_bytes == limit_bytes


def test_a_target_that_no_row_knows_has_no_limit_and_says_why() -> None:
    found = of_capability("9.5")
    assert found.limit_bytes is None
    assert "no catalogue row" in found.source


def test_a_word_that_is_no_target() -> None:
    with pytest.raises(UsageError, match="toaster is no target"):
        target("toaster")
