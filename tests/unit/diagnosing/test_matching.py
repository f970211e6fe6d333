"""A line finds its rows by pieces of their patterns, and the row that knows most speaks."""

from __future__ import annotations

import pytest

from upright import catalog
from upright.catalog.rows.failure import FailureRow
from upright.diagnosing.matching import Matcher, needles, plain


def row(name: str, pattern: str, tells: str = "cause") -> FailureRow:
    return FailureRow.model_validate(
        {
            "id": name, "title": name, "engines": ["any"], "severity": "fatal", "pattern": pattern, "tells": tells,
            "cause": "x", "remedies": [{"do": "by_hand", "why": "x"}], "seen": "none", "grade": "D", "sources": ["x"],
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "pieces"),
    [
        ("CUDA out of memory", {"cuda out of memory"}),
        (r"Error \d+: system not", {": system not"}),
        ("(?:driver|runtime) too old|GLIBC", {" too old", "glibc"}),
        (r"(?P<flag>--\w+) is not known", {" is not known"}),
        ("a|longer", set()),
        (r"\d+", set()),
        ("(?:maybe)?needed", {"needed"}),
        (r"(?!.*never)always", {"always"}),
    ],
)
def test_a_pattern_says_what_it_cannot_do_without(pattern: str, pieces: set[str]):
    assert set(needles(pattern)) == pieces


def test_no_row_of_ours_is_lost_by_its_pieces():
    matcher = Matcher(catalog.failures())
    for each in catalog.failures():
        for seen in each.seen if each.seen != "none" else ():
            assert each.id in [claim.id for claim in matcher.claims(seen.line)], seen.line


def test_the_row_that_knows_most_speaks():
    matcher = Matcher(
        [
            row("any-refusal", "not supported", "refusal"),
            row("kernels", "[Aa]rchitecture .*not supported", "class"),
            row("fp8", "architecture sm_75 is not supported by fp8"),
        ]
    )
    assert [claim.id for claim in matcher.claims("architecture sm_75 is not supported by fp8")] == ["fp8"]
    assert [claim.id for claim in matcher.claims("Architecture gfx906 is not supported")] == ["kernels"]
    assert [claim.id for claim in matcher.claims("this is not supported")] == ["any-refusal"]


@pytest.mark.parametrize(
    "line",
    [
        "(Worker_TP0 pid=1) WARNING 10-24 09:50:14 [x.py:1] sinks are not supported",
        "0.04.485.078 W llama_init: pooling is not supported",
        "[2025-12-25 20:19:59 TP0] Ignore import error when loading x: not supported",
        "2026-01-01 10:00:00,123 - WARNING - x.py:1 - it is not supported",
        "x.py:3: UserWarning: that is not supported",
    ],
)
def test_a_warning_is_no_failure_of_a_class(line: str):
    assert Matcher([row("any-refusal", "not supported", "refusal")]).claims(line) == ()
    assert Matcher([row("known", "not supported")]).claims(line) != ()


def test_what_nccl_calls_a_warning_is_an_error():
    line = "host:1:2 [0] transport/p2p.cc:238 NCCL WARN Cuda failure 217 'peer access is not supported'"
    assert Matcher([row("any-refusal", "not supported", "refusal")]).claims(line) != ()


def test_spaces_and_what_stands_before_a_line_do_not_hide_it():
    matcher = Matcher([row("shape", "^tensor 'x' has wrong shape; expected 1536, 2")])
    assert matcher.claims(
        "(EngineCore pid=3) ERROR 01-28 06:36:45 [core.py:9] tensor 'x' has wrong shape; expected   1536,  2"
    )
    assert plain("[rank0]: ValueError:  no") == "ValueError: no"
