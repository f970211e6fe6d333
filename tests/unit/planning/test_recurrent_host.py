"""Recurrent layers on a processor: two published engines were 2.2 times apart, so a plan says nothing."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Upright

ON_A_PROCESSOR = ("--box", "cpu", "--ram", "256GB", "--host-bandwidth", "8xDDR4-3200")


@pytest.mark.parametrize("engine", ["llama.cpp", "ik_llama.cpp"])
@pytest.mark.parametrize(("model", "known"), [("qwen3-next-80b-a3b:IQ4_XS", False), ("qwen3-30b-a3b:Q4_K_M", True)])
def test_recurrent_layers_on_a_processor_are_not_known(upright: Upright, engine: str, model: str, known: bool):
    plan = json.loads(upright("plan", model, *ON_A_PROCESSOR, "--engine", engine, "--json").stdout)["plans"][0]
    assert (plan["speed"] is not None) is known
    said = [note["message"] for note in plan["notes"] if note["code"] == "speed-unknown"]
    assert any("recurrent state on a processor" in message for message in said) is not known
