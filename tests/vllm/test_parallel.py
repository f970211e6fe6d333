"""The rung `parallel` on a real vLLM: five climbs, and never an alarm of a sound engine."""

from __future__ import annotations

import pytest

from tests.vllm.conftest import USERS, Standing

CLIMBS = 5


@pytest.mark.slow
def test_a_sound_engine_is_never_alarmed_of(standing: Standing) -> None:
    for climb in range(CLIMBS):
        evidence = standing.json("prove", standing.name, "--only", "parallel")
        seen = [item for item in evidence["observations"] if item["rung"] == "parallel"]
        for item in seen:
            print(f"climb {climb + 1}, {item['probe']}: {item['verdict']}: {item['reason']}")
        assert [item for item in evidence["observations"] if item["verdict"] == "failed"] == []
        assert [item["probe"] for item in seen][-3:] == [f"concurrency {USERS}", "full cache", "alone again"]
        assert next(item for item in seen if item["probe"] == "full cache")["measured"]["cache_usage"] > 0.9
        alone = next(item for item in seen if item["probe"] == "alone")
        assert alone["measured"]["must_be_equal"] >= 12
