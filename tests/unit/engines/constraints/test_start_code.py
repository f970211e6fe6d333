"""A recorded refusal of the engine binds, in one place; what was not asked, or only accepted, says nothing."""

from __future__ import annotations

from functools import partial

import pytest

from upright.engines.constraints import Situation, breaches
from upright.engines.constraints import start_code as judged
from upright.facts.catalog import recorded_starts as recorded
from upright.facts.catalog.recorded_starts import RecordedStart, StartKey
from upright.facts.records.recipe import Circumstances

MINIMAX = "MiniMaxAI--MiniMax-M2.7"
SENTENCE = "AssertionError: assert self.total_num_kv_heads % tp_size == 0"


def start(verdict: str, tensor: int, file: str = "vllm/model_executor/models/minimax_m2.py") -> RecordedStart:
    key = StartKey(MINIMAX, "9.0", tensor, cache_type="bf16")
    return RecordedStart(key, verdict, "model", SENTENCE, file, 164, None, None, "")


def situation(tensor: int, **about: str) -> Situation:
    told = {"artifact": "MiniMaxAI/MiniMax-M2.7", "model": "minimax-m2.7", "compute_capability": "9.0"} | about
    settings = {"tensor": tensor, "pipeline": 1, "decode_context": 1, "cache_type": "bf16", "expert_parallel": False}
    return Situation("vllm", "0.32.0", Circumstances(**told), settings)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch):
    def put(*starts: RecordedStart) -> None:
        def told(engine: str, version: str | None, verdicts: tuple[str, ...]) -> dict[StartKey, RecordedStart]:
            return {one.key: one for one in starts if version == "0.32.0" and one.verdict in verdicts}

        every = ("accepts", "refuses", "not-known")
        monkeypatch.setattr(judged, "recorded_starts", partial(told, verdicts=every))
        monkeypatch.setattr(judged, "recorded_refusals", partial(told, verdicts=("refuses",)))

    return put


def test_a_refusal_binds_with_its_sentence_its_line_and_what_is_accepted_instead(asked):
    asked(start("refuses", 6), start("accepts", 4))
    (breach,) = breaches(situation(6), [])
    assert breach.refused
    assert f"{SENTENCE} (vllm/model_executor/models/minimax_m2.py:164)" in breach.sentence
    assert breach.row.remedy == "--tp 4"


def test_an_acceptance_and_what_was_not_asked_say_nothing(asked):
    asked(start("refuses", 6), start("accepts", 4), start("not-known", 3))
    for other in (situation(4), situation(3), situation(2), situation(6, compute_capability="8.0")):
        assert breaches(other, []) == ()


def test_another_build_is_refused_for_what_does_not_follow_from_its_storage(asked):
    other = situation(6, artifact="nvidia/MiniMax-M2.7-NVFP4")
    asked(start("refuses", 6))
    assert breaches(other, [])
    asked(start("refuses", 6, "vllm/model_executor/layers/quantization/fp8.py"))
    assert breaches(other, []) == ()
    assert breaches(situation(6), [])


def test_a_build_that_was_asked_itself_and_accepted_is_not_refused_for_another(asked):
    other = situation(6, artifact="nvidia/MiniMax-M2.7-NVFP4")
    own = start("accepts", 6)
    asked(start("refuses", 6), own._replace(key=own.key._replace(configuration="nvidia--MiniMax-M2.7-NVFP4")))
    assert breaches(other, []) == ()


def test_a_patched_build_was_not_asked(asked):
    asked(start("refuses", 6))
    assert breaches(situation(6, image="somebodys"), []) == ()


def test_what_is_recorded_reads_back_as_it_was():
    one = start("refuses", 6)
    assert recorded.start_of(recorded.row_of_start(one)) == one


def test_what_vllm_refused_is_in_the_repository():
    starts = recorded.recorded_starts("vllm", "0.32.0")
    assert {one.verdict for one in starts.values()} <= {"accepts", "refuses", "not-known"}
    assert recorded.recorded_refusals("vllm", "0.32.0") == {
        key: one for key, one in starts.items() if one.verdict == "refuses"
    }
    six = starts[StartKey(MINIMAX, "9.0", 6, cache_type="bf16")]
    assert (six.verdict, six.file, six.line) == ("refuses", "vllm/model_executor/models/minimax_m2.py", 164)
