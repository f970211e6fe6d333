"""A plan that reads the RAM of two sockets says what that rests on; one that reads none has nothing to say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Upright
from upright.planning.beside import SOCKETS

HYBRID = ("kimi-k2.6", "--ram", "1TB", "--host-bandwidth", "600", "--context", "16k", "--engine", "ik_llama.cpp")


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
