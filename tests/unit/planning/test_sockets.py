"""A plan that reads the RAM of two sockets says what that rests on; one that reads none has nothing to say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Upright
from upright.planning.choosing.published_notes import SOCKETS

HYBRID = ("kimi-k2.6", "--ram", "1TB", "--host-bandwidth", "600", "--context", "16k", "--engine", "ik_llama.cpp")

MODEL = "unsloth/Qwen3-235B-A22B-GGUF:Q8_0"


@pytest.mark.parametrize(("sockets", "told"), [(1, False), (2, True)])
def test_two_sockets_are_not_one(upright: Upright, tmp_path: Path, sockets: int, told: bool):
    box = json.loads(upright("probe", "2x-rtx-pro-6000-workstation", "--json").stdout)
    box["cpu"]["sockets"] = sockets
    box.pop("digest", None)
    path = tmp_path / "box.json"
    path.write_text(json.dumps(box))
    plan = json.loads(upright("plan", *HYBRID, "--box", str(path), "--json").stdout)["plans"][0]
    assert plan["speed"] is not None
    assert any(note["code"] == SOCKETS for note in plan["notes"]) is told


@pytest.mark.parametrize(
    ("channels", "told"), [("8xDDR4-3200", False), ("12xDDR5-6400", False), ("12xDDR4-2666", True)]
)
def test_more_channels_than_one_socket_has_are_two(upright: Upright, channels: str, told: bool):
    said = ("--ram", "1TB", "--host-bandwidth", channels, "--engine", "ik_llama.cpp")
    plan = json.loads(upright("plan", MODEL, "--box", "cpu", *said, "--json").stdout)["plans"][0]
    assert any(note["code"] == SOCKETS for note in plan["notes"]) is told


def decode(upright: Upright, model: str, channels: str, *said: str, rate: str = "empty") -> float:
    words = ("--ram", "1TB", "--host-bandwidth", channels, "--engine", "ik_llama.cpp", "--context", "16k", *said)
    plan = json.loads(upright("plan", model, *words, "--json").stdout)["plans"][0]
    return float(plan["speed"][rate]["best"])


def test_two_xeon_6138_bound_to_none(upright: Upright):
    """2.41 tok/s with an empty context, where one socket alone is planned at 3.9."""
    two = decode(upright, MODEL, "12xDDR4-2666", "--box", "cpu")
    assert two == pytest.approx(2.41, rel=0.1)
    assert two == pytest.approx(0.57 * decode(upright, MODEL, "6xDDR4-2666", "--box", "cpu"), rel=0.03)


def test_of_a_hybrid_the_processors_part_alone_is_slower(upright: Upright):
    """Two Xeon 8480+ beside an RTX 3090: 27 tok/s, and 40 bound to one; two EPYC 9115 beside one: 8.65 at 17k."""
    maverick = ("llama-4-maverick:IQ4_XS", "--box", "1x-rtx-3090", "--place", "none")
    assert decode(upright, maverick[0], "8xDDR5-4800", *maverick[1:]) == pytest.approx(40, rel=0.1)
    assert decode(upright, maverick[0], "16xDDR5-4800", *maverick[1:]) == pytest.approx(27, rel=0.15)
    deepseek = ("ubergarm/DeepSeek-V3-0324-GGUF:IQ4_K_R4", "--box", "1x-rtx-3090")
    assert decode(upright, deepseek[0], "24xDDR5-5600", *deepseek[1:], rate="full") == pytest.approx(8.65, rel=0.1)
