"""How much of a prompt is read at once decides how fast experts in system RAM read it: `--ubatch` asks for it."""

from __future__ import annotations

import upright
from upright.facts.records.plan import Plan
from upright.planning.requests.plan_arguments import NamedBox, box_named

MODEL, BOX = "ubergarm/Kimi-K2.6-GGUF:Q4_X", "2x-rtx-pro-6000-max-q-epyc-9175f"


def planned(tokens: int | None) -> Plan:
    return upright.plan(MODEL, BOX, engine="llama.cpp", context_tokens=16_384, batched_tokens=tokens)[0]


def test_it_is_what_was_asked_for_and_the_recipe_says_so():
    made = planned(512)
    assert made.ubatch_tokens == 512
    assert next(each.value for each in upright.render(made).arguments if each.name == "--ubatch-size") == "512"


def test_a_longer_one_copies_experts_less_often():
    short, long = planned(512).speed, planned(4096).speed
    assert short is not None
    assert long is not None
    assert short.prompt is not None
    assert long.prompt is not None
    assert 3 < long.prompt.best / short.prompt.best < 8  # type: ignore[operator]
    assert planned(None).ubatch_tokens in (1024, 2048, 4096)


def test_experts_that_no_gpu_multiplies_by_are_read_by_the_processor_whatever_the_batch():
    """Rows interleaved for processors: copies would be of no use to a GPU. Some of these types have kernels there."""
    box = "1x RTX A6000"

    def prefill(model: str) -> object:
        request = NamedBox(box, memory_gib=238)
        made = upright.plan(model, box_named(request), engine="ik_llama.cpp", context_tokens=8192)[0]
        assert made.speed is not None
        return made.speed.prompt

    assert prefill("ubergarm/DeepSeek-R1-GGUF:Q2_K_R4") is None
    assert prefill("ubergarm/DeepSeek-V3-0324-GGUF:IQ2_K_R4") is not None
    assert prefill("unsloth/DeepSeek-R1-GGUF:UD-Q2_K_XL") is not None
