"""Versions and ranges as rows write them."""

from __future__ import annotations

import pytest

from upright.facts.catalog.versions import bound, in_range, parse


@pytest.mark.parametrize(
    ("version", "range_", "holds"),
    [
        ("0.32.0", "<=0.32.0", True),
        ("0.32", ">=0.32.0", True),
        ("0.32.1", "<=0.32.0", False),
        ("0.18.0", ">=0.18,<0.26", True),
        ("0.26.0", ">=0.18,<0.26", False),
        ("0.5.8.post1", "<0.5.9", True),
        ("0.5.8.post1", ">0.5.8", True),
        ("0.28.0rc2", "<0.28.0", True),
        ("0.32.0+cpu", "==0.32.0", True),
        ("0.10.2", ">=0.9.0", True),
        ("b11669", ">=b8681", True),
        ("12.1", ">=12.0,<13", True),
        ("12.0", "!=12.1", True),
        ("9.0", ">=12.0,<13", False),
        ("gfx942", "==gfx942", True),
        ("gfx942", "==gfx950", False),
        ("gfx942", ">=9.0,<12", False),
        ("apple8", "==apple*", True),
        ("12.0", "==apple*", False),
    ],
)
def test_inside(version: str, range_: str, holds: bool) -> None:
    assert in_range(version, range_) is holds


@pytest.mark.parametrize("range_", ["", "0.18", ">=", "between 1 and 2", ">=0.18;<0.26"])
def test_a_range_that_is_none_is_refused(range_: str) -> None:
    with pytest.raises(ValueError, match=r"not a (range|version)"):
        in_range("1.0", range_)


def test_any_version_is_in_the_open_range_but_must_be_one() -> None:
    assert in_range("1.0", "*")
    with pytest.raises(ValueError, match="not a version"):
        parse("anything")


def test_an_end_of_a_range_is_told_as_it_is_written() -> None:
    assert (bound(">=0.18,<0.26.0", "<"), bound(">=0.18,<0.26.0", ">=")) == ("0.26.0", "0.18")
    assert (bound("<=0.32.0", "<"), bound("*", "<")) == (None, None)
