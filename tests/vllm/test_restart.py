"""The end of the standing deployment, after all other tests: down, and up again on a model changed meanwhile."""

from __future__ import annotations

import json
from pathlib import Path

from tests.vllm.conftest import Standing
from upright.serving.launch.processes import identify


def test_down_ends_all_of_it_and_what_comes_back_with_plain_rope_is_all_garbage(standing: Standing):
    """vLLM's CPU kernel is wrong for MLA with plain RoPE: /health is 200, every reply is 200, and none is right.

    Only a trained model shows it; the config says the same thing as the good one, without its identity YaRN.
    """
    (before,) = standing.json("ps")
    workers = group_of(before["process"]["pid"])
    assert len(workers) >= 3, "API server, engine core, worker"
    down = standing.json("down", standing.name)
    assert (down["state"], down["reason"]) == ("stopped", "stopped on request")
    assert [pid for pid in workers if identify(pid) is not None] == []

    config = json.loads((standing.model / "config.json").read_text())
    del config["rope_scaling"]
    (standing.model / "config.json").write_text(json.dumps(config))
    again = standing.json("restart", standing.name)
    assert again["state"] == "ready"
    assert again["process"] != before["process"]
    evidence = standing.json("prove", standing.name, "--to", "smoke", code=1)
    wrong = [item for item in evidence["observations"] if item["verdict"] == "failed"]
    assert {item["rung"] for item in wrong} <= {"boot", "smoke"}
    assert all(item["response"] is not None for item in wrong), "every reply was HTTP 200"
    asked = [item for item in evidence["observations"] if item["rung"] == "smoke"]
    assert not asked or sum(item["verdict"] == "failed" for item in asked) > len(asked) // 2


def group_of(leader: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == leader:
            found.append(int(path.parent.name))
    return found
