"""A real Prometheus on the standing vLLM: data for every panel of its dashboard, and the live view of it."""

from __future__ import annotations

import threading
from pathlib import Path

import httpx2

from tests.prometheus import empty, panels, watching
from tests.vllm.conftest import Standing


def test_every_panel_has_data(standing: Standing, tmp_path: Path) -> None:
    record = standing.json("monitor", standing.name, "--every", "1s", "-o", tmp_path)
    (target,) = record["targets"]
    assert (target["software"], target["metrics_of"]) == ("vllm", "0.32.0")
    assert target["key_file"] is None, "vLLM's metrics want no key"
    assert "upright:first_token_seconds" in target["figures"]
    stop = threading.Event()
    thread = threading.Thread(target=_ask, args=(standing, stop))
    thread.start()
    try:
        with watching(tmp_path) as prometheus:
            assert len(panels(tmp_path)) >= 20
            prometheus.wait(lambda: not empty(prometheus, tmp_path), "data for every panel", seconds=300)
            prometheus.wait(lambda: any(prometheus.values("upright:generation_tokens_per_second")), "a speed")
            assert not {"UprightDown", "UprightMetricsMissing", "UprightErrors"} & set(prometheus.firing())
        rows = [row for _ in range(5) for row in standing.json("top", standing.name)]
    finally:
        stop.set()
        thread.join(120)
    row = max(rows, key=lambda seen: seen["output_tokens_per_second"] or 0.0)
    assert row["state"] == "ready"
    assert row["output_tokens_per_second"] > 0, "a look lasts a second, in which a busy machine may make no token"
    assert row["kv_usage"] is not None
    assert row["errors"] == 0


def _ask(standing: Standing, stop: threading.Event) -> None:
    """A long beginning that the cache has after the first time."""
    text = "The box stands on the table, and the table stands in the room. " * 8
    body = {"model": "tiny-kimi", "max_tokens": 32, "messages": [{"role": "user", "content": text}]}
    headers = {**standing.headers, "Connection": "close"}
    with httpx2.Client(trust_env=False, headers=headers, timeout=120) as client:
        while not stop.is_set():
            client.post(f"{standing.base_url}/v1/chat/completions", json=body)
