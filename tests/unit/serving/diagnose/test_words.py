"""Reports in somebody's own words: what is only a name, or only tried, tells nothing."""

from __future__ import annotations

import io

import pytest

from upright.serving.diagnose import diagnose


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
    assert not (code_of("error: the moon timed out while the server waited") or "").startswith("words-")


REPORTS = {
    "The server hangs after an hour, requests run and no token comes": "words-hang-under-load",
    "Tool calling does not work with this model": "words-tool-calls-broken",
    "The images are ignored, the vision model does not see them": "words-images-fail",
    "RAM usage keeps growing with every request": "words-memory-grows",
}
CONTEXTS = (
    "I tried --enforce-eager, --disable-custom-all-reduce and NCCL_P2P_DISABLE=1, no change.",
    "We already disabled MTP, prefix caching and CUDA graphs. None of it helps.",
    "Environment:\n- GPU: 2x RTX PRO 6000 (sm_120), driver 580\n- Model: GLM-5-NVFP4 with an fp8 KV cache and MTP",
    "vllm serve m --tensor-parallel-size 8 --kv-cache-dtype fp8 --enable-expert-parallel --speculative-config x",
    "./llama-server -m m.gguf -ngl 99 -ot exps=CPU -fa on -ctk q8_0 --jinja -sm row --rpc 10.0.0.2:50052",
    "It also happens without MTP, with CUDA graphs off and with a bf16 KV cache.",
    "It is not an out of memory problem, there is plenty of free VRAM.",
    "Other models work fine on the same machine.",
)


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("report", REPORTS)
def test_what_was_tried_typed_or_works_is_no_symptom(report: str, context: str):
    assert code_of(f"{report}.\n{context}") == code_of(report) == REPORTS[report]


def test_a_part_without_which_it_works_is_blamed():
    assert code_of("It crashes after some requests. MTP off: stable") == "words-speculation-fails"
    assert code_of("It crashes after some requests, even with MTP off") != "words-speculation-fails"


def test_a_gap_between_words_ends_with_the_sentence():
    report = "Performance Regression on gfx1151 in recent builds. GPU memory is fine."
    assert code_of(report) == "words-regression"
    assert code_of("The GPU utilization drops. One request hangs.") == "words-hang-under-load"


def test_what_is_told_as_plainly_is_shown_beside():
    report = "The model does not fit in memory. The server hangs."
    found = diagnose(io.BytesIO(f"{report}\n".encode()), subject="report")
    assert {"words-out-of-memory", "words-hang-under-load"} <= {finding.code for finding in found.findings}


def test_a_title_in_a_projects_form_is_a_persons():
    assert code_of("[Bug]: vLLM hangs after some requests") == code_of("vLLM hangs after some requests")
