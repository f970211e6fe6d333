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


def test_one_sockets_bandwidth_is_counted(upright: Upright):
    """Bound to no socket, two Xeon 6138 decoded at 0.6 of what one is planned at, and at 0.37 of both."""

    def decode(channels: str) -> float:
        said = ("--ram", "1TB", "--host-bandwidth", channels, "--engine", "ik_llama.cpp")
        plan = json.loads(upright("plan", MODEL, "--box", "cpu", *said, "--json").stdout)["plans"][0]
        return float(plan["speed"]["decode"]["best"])

    assert decode("12xDDR4-2666") == decode("6xDDR4-2666")
