"""Real log lines of every engine -> the figures in them; each reading on GPUs is backed by three public logs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from upright.base.units import GIB, MIB
from upright.engines import ENGINES, engine_named

LOGS = Path(__file__).parents[2] / "recordings/logs"
UNITS = {"vllm": GIB, "sglang": GIB, "llama.cpp": MIB, "ik_llama.cpp": MIB, "ktransformers": GIB}
SILENT = {"mlx"}
"""Its log says nothing of weights or buffers; of the prompt cache it tells gigabytes with two places."""
# Readings that a plan is compared with, by engine.
READ_ON_GPUS = {
    "vllm": {"weights", "kv_cache", "kv_tokens", "graphs", "graphs_reserved", "requested", "activations", "non_torch"},
    "sglang": {"weights", "kv_cache", "kv_tokens", "graphs", "free_before", "free_after"},
    "llama.cpp": {"weights", "kv_cache", "compute", "runtime", "output"},
    "ik_llama.cpp": {"weights", "kv_cache", "compute", "output"},
    "ktransformers": {},  # reads as SGLang does; two public logs are known
}


def excerpts(engine: str) -> list[dict[str, Any]]:
    return yaml.safe_load((LOGS / f"memory/{engine}.yaml").read_text())


EVERY = [(engine, excerpt) for engine in UNITS for excerpt in excerpts(engine)]


@pytest.mark.parametrize(("engine", "excerpt"), EVERY, ids=[f"{engine} {found['source']}" for engine, found in EVERY])
def test_what_is_read_is_what_is_there_and_nothing_else(engine: str, excerpt: dict[str, Any]):
    counted = {"kv_tokens", "context_tokens", "concurrency", "capture_seconds"}
    found = {
        f"{reading.what} {reading.device}" if reading.device else reading.what: reading.value
        / (1 if reading.what in counted else UNITS[engine])
        for reading in engine_named(engine).log.memory(excerpt["log"]).readings
    }
    assert found == pytest.approx(excerpt["reads"])


@pytest.mark.parametrize("engine", UNITS)
def test_each_reading_on_gpus_is_backed_by_three_public_logs(engine: str):
    backed: Counter[str] = Counter()
    for excerpt in excerpts(engine):
        assert excerpt["source"]
        assert excerpt["version"]
        if "run by us" not in excerpt["source"] and "filled in" not in excerpt["source"]:
            backed.update({name.split()[0] for name in excerpt["reads"]})
    assert {what for what in READ_ON_GPUS[engine] if backed[what] < 3} == set()


def test_every_engine_is_here():
    assert set(UNITS) == {name for name in ENGINES if name not in SILENT}


def test_only_the_last_start_of_a_log_counts():
    life = next(found["log"] for found in excerpts("llama.cpp") if "b11669, run by us" in found["source"])
    first = life.replace("1.14 MiB", "7.77 MiB").replace("5.01 MiB", "9.99 MiB")
    report = engine_named("llama.cpp").log.memory(first + life)
    assert [found.value for found in report.readings] == [
        found.value for found in engine_named("llama.cpp").log.memory(life).readings
    ]
    weights = report.of("weights", "host")
    assert weights is not None
    assert weights.value == pytest.approx(1.14 * MIB)
    assert weights.rounding == pytest.approx(0.005 * MIB)


def test_pipeline_stages_are_other_gpus():
    log = "".join(
        f"(Worker_PP{stage}_TP{rank} pid={100 + 2 * stage + rank}) INFO [x.py:1] Model loading took "
        f"{10 + 2 * stage + rank}.00 GiB memory and 1.0 seconds\n"
        for stage in (0, 1)
        for rank in (0, 1)
    )
    report = engine_named("vllm").log.memory(log)
    assert [(found.device, found.value / GIB) for found in report.readings] == [
        ("gpu0", 10), ("gpu1", 11), ("gpu2", 12), ("gpu3", 13),
    ]  # fmt: skip
    assert report.devices() == ("gpu0", "gpu1", "gpu2", "gpu3")


@pytest.mark.parametrize("engine", UNITS)
def test_a_healthy_log_is_read_without_surprise(engine: str):
    for found in engine_named(engine).log.memory((LOGS / f"healthy/{engine}.log").read_text()).readings:
        assert found.value >= 0
        assert found.line


@given(st.text(alphabet=st.characters(codec="utf-8")), st.sampled_from(sorted(UNITS)))
def test_any_text_is_read(text: str, engine: str):
    assert engine_named(engine).log.memory(text).readings == ()
