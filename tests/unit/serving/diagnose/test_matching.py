"""The row that knows most of a line speaks, and a warning is no failure of a class."""

from __future__ import annotations

import pytest

from upright.facts import catalog
from upright.facts.catalog.rows.failure import FailureRow
from upright.serving.diagnose.literals import PatternPrefilter
from upright.serving.diagnose.scan import matching_rows, plain_message


def row(name: str, pattern: str, tells: str = "cause") -> FailureRow:
    return FailureRow.model_validate(
        {
            "id": name, "title": name, "engines": ["any"], "severity": "fatal", "pattern": pattern, "tells": tells,
            "cause": "x", "remedies": [{"do": "by_hand", "why": "x"}], "seen": "none", "grade": "D", "sources": ["x"],
        }
    )  # fmt: skip


def test_no_row_of_ours_is_lost_by_the_sieve():
    rows = catalog.failures()
    sieve = PatternPrefilter([known.pattern for known in rows])
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
    assert [claim.id for claim in matching_rows("architecture sm_75 is not supported by fp8", rows)] == ["fp8"]
    assert [claim.id for claim in matching_rows("Architecture gfx906 is not supported", rows)] == ["kernels"]
    assert [claim.id for claim in matching_rows("Architecture gfx906", rows)] == ["builds"]
    assert [claim.id for claim in matching_rows("this is not supported", rows)] == ["any-refusal"]


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
    assert matching_rows(line, [row("any-refusal", "not supported", "refusal")]) == ()
    assert matching_rows(line, [row("known", "not supported")]) != ()


@pytest.mark.parametrize(
    "line",
    [
        "(APIServer pid=1) INFO 09-17 11:34:03 [qwen3coder_tool_parser.py:76] vLLM Successfully import tool parser X !",
        "(EngineCore pid=17) INFO 01-29 10:00:00 [utils.py:17] Port 8000 is already in use, trying port 8001",
        "(EngineCore pid=17) INFO 01-29 10:00:00 [x.py:17] Evicted stale remote engine 17 (inactive for 17s).",
        "(APIServer pid=1) WARNING 01-29 10:00:00 [vllm.py:1] Async scheduling not supported with ngram-based "
        "speculative decoding and will be disabled.",
        "[2026-01-29 10:00:00 TP0] Mamba Cache is allocated. max_mamba_cache_size: 17, conv_state size: 17GB",
        "[2026-01-29 10:00:00 TP0] EPLB is enabled. The expert_distribution_recorder_mode is automatically set.",
        "[2026-01-29 10:00:00 TP0] No chat template found, defaulting to 'string' content format",
        "[2026-01-29 10:00:00 TP0] LoRA adapter 'x' uses target_modules='all'. Resolved to 17.",
        "[2026-01-29 10:00:00 TP0] Port 17 is already in use, trying port 18",
        "0.00.000.017 I common_context_can_seq_rm: the target context does not support partial sequence removal",
        '/x/torch/_dynamo/f.py:1575: UserWarning: Dynamo detected a call. Enable TORCH_LOGS="+dynamo" for a stack.',
    ],
)
def test_what_an_engine_logs_at_a_healthy_start_is_no_failure(line: str):
    assert [
        claim.id
        for claim in matching_rows(line, [row for row in catalog.failures() if row.where != "part"])
        if claim.alarms and claim.severity != "slow"
    ] == []


def test_a_lost_request_is_one_as_a_warning_and_not_as_information():
    lost = row("lost", "was not parsed", "class").model_copy(update={"severity": "request"})
    assert matching_rows("WARNING 01-29 10:00:00 [x.py:1] the call was not parsed", [lost]) == (lost,)
    assert matching_rows("INFO 01-29 10:00:00 [x.py:1] the call was not parsed", [lost]) == ()


def test_what_nccl_calls_a_warning_is_an_error():
    line = "host:1:2 [0] transport/p2p.cc:238 NCCL WARN Cuda failure 217 'peer access is not supported'"
    assert matching_rows(line, [row("any-refusal", "not supported", "refusal")]) != ()


def test_spaces_and_what_stands_before_a_line_do_not_hide_it():
    shape = row("shape", "^tensor 'x' has wrong shape; expected 1536, 2")
    before = "(EngineCore pid=3) ERROR 01-28 06:36:45 [core.py:9] "
    assert matching_rows(f"{before}tensor 'x' has wrong shape; expected   1536,  2", [shape])
    assert plain_message("[rank0]: ValueError:  no") == "ValueError: no"
