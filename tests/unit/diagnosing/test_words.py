"""Reports in somebody's own words: what is only a name, or only tried, tells nothing."""

from __future__ import annotations

import io

import pytest

from upright.diagnosing import diagnose


def code_of(report: str) -> str | None:
    return diagnose(io.BytesIO(f"{report}\n".encode()), subject="report").code


@pytest.mark.parametrize("name", ["kimi-k2-thinking", "Kimi-K2-Thinking", "Qwen3-Next-80B-A3B-Thinking"])
def test_a_part_of_a_models_name_is_no_complaint(name: str):
    report = "on AMD MI300X not working. Container is killed by Kubernetes when memory crosses the limit while loading."
    assert code_of(f"{name} {report}") == code_of(f"The model {report}") == "words-out-of-memory"


def test_a_model_that_thinks_in_the_wrong_field_is_still_one():
    assert code_of("Kimi-K2-Thinking puts its reasoning_content into content") == "words-thinking-misplaced"


def test_a_signal_that_was_tried_in_vain_did_not_end_it():
    report = "The model never completes loading. Cannot kill the process without a reboot. Tried SIGQUIT, SIGKILL"
    assert code_of(report) != "exit-137"
    assert code_of("The pod was ended by SIGKILL after the load") == "exit-137"


def test_a_report_may_be_chinese():
    assert code_of("但是生成速度非常慢，只有4 tokens/s") == "words-slow"


def test_what_a_report_tells_goes_before_what_only_followed():
    report = "The decode worker never starts its bootstrap server: Connection refused. Both workers look healthy."
    assert code_of(report) == "words-bootstrap-fails"
    assert code_of("connect ECONNREFUSED 127.0.0.1:8000") == "client-connection-refused"


def test_a_programs_error_is_no_report():
    assert code_of("error: the moon timed out while the server waited") is None
