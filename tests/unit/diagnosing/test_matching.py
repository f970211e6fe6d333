"""The row that knows most of a line speaks, and a warning is no failure of a class."""

from __future__ import annotations

import pytest

from upright import catalog
from upright.catalog.rows.failure import FailureRow
from upright.diagnosing.literals import Sieve
from upright.diagnosing.matching import claims, plain


def row(name: str, pattern: str, tells: str = "cause") -> FailureRow:
    return FailureRow.model_validate(
        {
            "id": name, "title": name, "engines": ["any"], "severity": "fatal", "pattern": pattern, "tells": tells,
            "cause": "x", "remedies": [{"do": "by_hand", "why": "x"}], "seen": "none", "grade": "D", "sources": ["x"],
        }
    )  # fmt: skip


def test_no_row_of_ours_is_lost_by_the_sieve():
    rows = catalog.failures()
    sieve = Sieve([known.pattern for known in rows])
    for number, known in enumerate(rows):
        for seen in known.seen if known.seen != "none" else ():
            sentence = seen.line.encode().translate(None, b"0123456789")
            kept = {number for _, _, numbers in sieve.kept(sentence) for number in numbers}
            assert number in kept, seen.line


def test_the_row_that_knows_most_speaks():
    rows = [
        row("any-refusal", "not supported", "refusal"),
        row("builds", "[Aa]rchitecture .*", "family"),
        row("kernels", "[Aa]rchitecture .*not supported", "class"),
        row("fp8", "architecture sm_75 is not supported by fp8"),
    ]
    assert [claim.id for claim in claims("architecture sm_75 is not supported by fp8", rows)] == ["fp8"]
    assert [claim.id for claim in claims("Architecture gfx906 is not supported", rows)] == ["kernels"]
    assert [claim.id for claim in claims("Architecture gfx906", rows)] == ["builds"]
    assert [claim.id for claim in claims("this is not supported", rows)] == ["any-refusal"]


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
    assert claims(line, [row("any-refusal", "not supported", "refusal")]) == ()
    assert claims(line, [row("known", "not supported")]) != ()


def test_what_nccl_calls_a_warning_is_an_error():
    line = "host:1:2 [0] transport/p2p.cc:238 NCCL WARN Cuda failure 217 'peer access is not supported'"
    assert claims(line, [row("any-refusal", "not supported", "refusal")]) != ()


def test_spaces_and_what_stands_before_a_line_do_not_hide_it():
    shape = row("shape", "^tensor 'x' has wrong shape; expected 1536, 2")
    before = "(EngineCore pid=3) ERROR 01-28 06:36:45 [core.py:9] "
    assert claims(f"{before}tensor 'x' has wrong shape; expected   1536,  2", [shape])
    assert plain("[rank0]: ValueError:  no") == "ValueError: no"
