"""Lines that were broken on their way are read as they were."""

from __future__ import annotations

import io
import textwrap

import pytest

from upright.serving.diagnose import diagnose

LONG = (
    "ValueError: Selected backend AttentionBackendEnum.FLASHINFER_MLA is not valid for this configuration. "
    "Reason: ['sparse not supported', 'compute capability not supported']"
)


@pytest.mark.parametrize("width", [40, 60, 80, 100, 132])
@pytest.mark.parametrize("before", ["", "(EngineCore_DP0 pid=120) ERROR 01-28 06:36:45 [core.py:946] ", "vllm-1  | "])
def test_a_line_that_a_terminal_broke_is_whole_again(width: int, before: str):
    broken = "\n".join(textwrap.wrap(before + LONG, width, break_on_hyphens=False))
    assert diagnose(io.BytesIO(broken.encode()), subject="paste").code == "vllm-mla-backend-refused"


def test_a_line_that_was_cut_within_a_word_is_whole_again():
    broken = "\n".join(LONG[place : place + 80] for place in range(0, len(LONG), 80))
    assert diagnose(io.BytesIO(broken.encode()), subject="paste").code == "vllm-mla-backend-refused"


def test_every_line_of_a_process_has_its_beginning():
    before = "(EngineCore_DP0 pid=120) ERROR 01-28 06:36:45 [core.py:946] "
    first, second = LONG.split(" Reason")
    text = f"{before}{first}\n{before}Reason{second}\n"
    assert diagnose(io.BytesIO(text.encode()), subject="paste").code == "vllm-mla-backend-refused"


def test_what_two_processes_say_is_not_put_together():
    first, second = LONG.split(" Reason")
    one, other = "(Worker_TP0 pid=1) ERROR 01-28 06:36:45 [a.py:1] ", "(Worker_TP1 pid=2) INFO 01-28 06:36:45 [a.py:1] "
    text = f"{one}{first}\n{other}Reason{second}\n"
    assert diagnose(io.BytesIO(text.encode()), subject="paste").code == "attention-backend-refused", (
        "the half that knows"
    )


@pytest.mark.parametrize(
    "between",
    [
        "(Worker_TP1 pid=2) INFO 01-28 06:36:45 [a.py:1] Starting to load",
        "[rank2]: W05-15 03:00:03 torch/distributed/run.py:766] Setting OMP_NUM_THREADS",
    ],
)
def test_what_another_process_logs_in_between_does_not_part_the_halves(between: str):
    first, second = LONG.split(" Reason")
    text = f"{first}\n{between}\nReason{second}\n"
    assert diagnose(io.BytesIO(text.encode()), subject="paste").code == "vllm-mla-backend-refused"
