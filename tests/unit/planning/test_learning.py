"""A plan, what the engine says of it, and the next plan: the loop, on figures that can be checked in the head."""

from __future__ import annotations

import pytest

from tests.unit.planning.planning_examples import box, model
from upright.base.units import GIB, MIB
from upright.engines import engine_named
from upright.facts.records.base import Figure
from upright.facts.records.box import Box
from upright.facts.records.model import Model
from upright.facts.records.plan import Goal, Plan
from upright.facts.records.residuals import Residuals
from upright.planning.choosing import plan
from upright.planning.placement.planned_vs_actual import StartReading, planned_vs_actual

WEIGHTS_GIB = 64.0
GPUS = box(memory_gib=512, gpus=8)
CPU = box(memory_gib=32)


def checkpoint(name: str = "toy", weight_gib: float = WEIGHTS_GIB) -> Model:
    return model(weight_gib).model_copy(update={"format": "safetensors", "name": name, "source": name})


def gguf(name: str = "toy") -> Model:
    return model(4).model_copy(update={"name": name, "source": f"{name}.gguf"})


def vllm_plan(machine: Box = GPUS, artifact: Model | None = None, measured=(), **goal: object) -> Plan:
    wanted = Goal(engine="vllm", **{"context_tokens": 8192, "engine_version": "0.20.0", **goal})
    return plan(machine, artifact or checkpoint(), wanted, measured=measured)[0]


def llama_plan(measured=(), artifact: Model | None = None, context: int = 4096, version: str = "b9001") -> Plan:
    wanted = Goal(engine="llama.cpp", context_tokens=context, engine_version=version)
    return plan(CPU, artifact or gguf(), wanted, measured=measured)[0]


def started(found: Plan, log: str, machine: Box = GPUS, at: str = "2026-11-15T10:00:00", **seen: object) -> Residuals:
    report = engine_named(found.engine).log.memory(log)
    return planned_vs_actual(
        found, StartReading(report, **seen), deployment="first", at=at, box_identity=machine.identity
    )


def vllm_log(found: Plan, runtime_gib: float, graphs_gib: float | None = None) -> str:
    """What a vLLM whose overheads are these would log on every rank."""
    offered = found.budgets[0].capacity_bytes / GIB
    weights = sum(line.bytes for line in found.ledger if line.device == "gpu0" and "weights" in line.term) / GIB
    lines = []
    for rank in range(found.parallel.tensor):
        worker = f"(Worker_TP{rank} pid={100 + rank}) INFO"
        lines.append(f"{worker} [gpu_model_runner.py:1] Model loading took {weights:.2f} GiB memory and 9.0 seconds")
        if graphs_gib is not None:
            lines.append(f"{worker} [gpu_model_runner.py:2] Estimated CUDA graph memory: {graphs_gib:.2f} GiB total")
        left = offered - weights - runtime_gib - (graphs_gib or 0)
        lines.append(f"{worker} [gpu_worker.py:3] Available KV cache memory: {left:.2f} GiB")
    tokens = int(left * GIB * found.parallel.tensor / (found.kv.bytes_per_token * found.kv.copies))
    return "\n".join([*lines, f"(EngineCore pid=1) INFO [kv_cache_utils.py:4] GPU KV cache size: {tokens:,} tokens"])


def term(found: Plan, name: str, device: str = "gpu0"):
    return next(line for line in found.ledger if (line.device, line.term) == (device, name))


def test_vllm_says_less_than_the_plan_and_the_difference_is_the_runtime():
    first = vllm_plan()
    found = started(first, vllm_log(first, runtime_gib=5.0))
    weights, cache, runtime = (found.line("gpu3", name) for name in ("weights", "kv_cache", "runtime"))
    assert weights is not None
    assert cache is not None
    assert runtime is not None
    assert abs(weights.difference_bytes or 0) <= 0.005 * GIB
    assert weights.within, "the log rounds to hundredths"
    assert runtime.measured_bytes.value == pytest.approx(5.0 * GIB, abs=0.02 * GIB)
    assert runtime.measured_bytes.basis == "measured"
    assert cache.difference_bytes == pytest.approx(term(first, "runtime").bytes - 5.0 * GIB, abs=0.02 * GIB), (
        "what the runtime took, the cache lost"
    )
    assert found.pool.measured_tokens.value is not None
    assert not found.unread


def test_the_next_plan_uses_it_and_says_so():
    first = vllm_plan()
    found = started(first, vllm_log(first, runtime_gib=5.0))
    second = vllm_plan(measured=[found])
    line = term(second, "runtime")
    assert line.basis == "measured"
    assert "measured on first, 2026-11-15" in line.why
    assert line.bytes == pytest.approx(5.0 * GIB, abs=0.03 * GIB)
    again = started(second, vllm_log(second, runtime_gib=5.0))
    assert again.pool.within
    assert abs(again.pool.difference_tokens or 0) < 0.01 * second.kv.capacity_tokens
    note = next(note for note in second.notes if note.code == "measured")
    assert "runtime" in note.message
    assert "--no-measured" in (note.remedy or "")
    assert second.kv.high_tokens - second.kv.low_tokens < (first.kv.high_tokens - first.kv.low_tokens) / 5


def test_a_third_plan_learns_the_same():
    """What was taught must not be taken for the catalogue's when it is measured again."""
    first = llama_plan()
    log = llama_log(first, scratch_mib=300)
    second = llama_plan(measured=[started(first, log, CPU)])
    third = llama_plan(measured=[started(second, log, CPU, at="2026-11-16T10:00:00")])
    assert term(second, "compute", "host").bytes == term(third, "compute", "host").bytes


def llama_log(found: Plan, scratch_mib: float) -> str:
    cache = term(found, "kv_cache", "host").bytes / MIB
    return (
        "load_tensors:   CPU_Mapped model buffer size =  4096.00 MiB\n"
        f"llama_context: n_ctx         = {found.context_tokens}\n"
        f"llama_kv_cache:        CPU KV buffer size =  {cache:.2f} MiB\n"
        f"sched_reserve:        CPU compute buffer size =   {scratch_mib:.2f} MiB\n"
    )


def test_scratch_is_learned_in_times_of_the_formula():
    first = llama_plan()
    second = llama_plan(measured=[started(first, llama_log(first, scratch_mib=300), CPU)])
    line = term(second, "compute", "host")
    assert line.bytes == pytest.approx(300 * MIB, abs=0.01 * MIB)
    assert line.low_bytes <= 300 * MIB <= line.high_bytes
    assert (line.basis, second.fits) == ("measured", True)
    longer = llama_plan(measured=[started(first, llama_log(first, scratch_mib=300), CPU)], context=8192)
    ratio = term(longer, "compute", "host").bytes / term(llama_plan(context=8192), "compute", "host").bytes
    assert ratio == pytest.approx(300 * MIB / term(first, "compute", "host").bytes, rel=1e-3)
    other = llama_plan(measured=[started(first, llama_log(first, scratch_mib=300), CPU)], artifact=gguf("other"))
    assert term(other, "compute", "host").basis == "derived", "another model's graph is another graph"


def test_the_process_has_a_range_and_the_plan_takes_the_most():
    first = llama_plan()
    measured = Figure(value=80 * MIB, basis="measured", source="test")
    found = started(first, "", CPU, process_bytes=measured, process_low_bytes=60 * MIB)
    line = term(llama_plan(measured=[found]), "process", "host")
    assert line.bytes == 80 * MIB
    assert line.low_bytes == pytest.approx(0.95 * 60 * MIB, abs=1)
    assert line.high_bytes == pytest.approx(1.05 * 80 * MIB, abs=1)


@pytest.mark.parametrize(
    "change",
    [
        {"box_identity": "another"},
        {"engine": "sglang"},
        {"engine_version": "0.21.0"},
        {"draft": True},
        {"parallel": {"tensor": 4}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_was_measured_elsewhere_does_not_count(change: dict[str, object]):
    first = vllm_plan()
    found = started(first, vllm_log(first, runtime_gib=5.0))
    other = Residuals.model_validate({**found.model_dump(), **change})
    assert vllm_plan(measured=[other]).ledger == first.ledger


def test_another_version_falls_back_and_says_so():
    first = vllm_plan()
    found = started(first, vllm_log(first, runtime_gib=5.0))
    newer = vllm_plan(measured=[found], engine_version="0.32.0")
    note = next(note for note in newer.notes if note.code == "not-measured")
    assert "0.20.0, not with 0.32.0" in note.message
    assert term(newer, "runtime").basis != "measured" or "measured on" not in term(newer, "runtime").why


def test_the_newest_wins_and_the_same_model_before_others():
    first = vllm_plan()
    old = started(first, vllm_log(first, runtime_gib=5.0), at="2026-11-14T10:00:00")
    new = started(first, vllm_log(first, runtime_gib=6.0), at="2026-11-15T10:00:00")
    assert term(vllm_plan(measured=[new, old]), "runtime").bytes == pytest.approx(6 * GIB, abs=0.03 * GIB)
    other = Residuals.model_validate({**new.model_dump(), "model": "other", "at": "2026-11-16T10:00:00"})
    assert term(vllm_plan(measured=[other, old]), "runtime").bytes == pytest.approx(5 * GIB, abs=0.03 * GIB)
    alone = vllm_plan(measured=[other])
    line, row = term(alone, "runtime"), term(first, "runtime")
    assert line.bytes == pytest.approx(6 * GIB, abs=0.03 * GIB)
    assert line.low_bytes <= row.low_bytes, "of another model the catalogue's band is kept"
    own = vllm_plan(measured=[new])
    assert alone.kv.low_tokens / alone.kv.capacity_tokens < own.kv.low_tokens / own.kv.capacity_tokens - 0.03


def test_graphs_belong_to_the_ranks_that_share_a_cache():
    counted = {"engine_version": "0.32.0", "decode_context_parallel": 1}
    first = vllm_plan(**counted)
    found = started(first, vllm_log(first, runtime_gib=2.5, graphs_gib=1.2))
    same = vllm_plan(measured=[found], **counted)
    assert term(same, "graphs").bytes == pytest.approx(1.2 * GIB, abs=0.01 * GIB)
    assert same.kv.low_tokens > 0.98 * same.kv.capacity_tokens
    shared = vllm_plan(measured=[found], **{**counted, "decode_context_parallel": 8})
    assert term(shared, "runtime").bytes == pytest.approx(2.5 * GIB, abs=0.03 * GIB)
    by_itself = term(vllm_plan(**{**counted, "decode_context_parallel": 8}), "graphs")
    assert term(shared, "graphs").why.partition(" captured")[0].rpartition(" ")[0] in by_itself.why
    graphs, pool = term(shared, "graphs"), shared.kv.capacity_tokens * shared.kv.bytes_per_token / 8
    unmeasured = (graphs.high_bytes - graphs.bytes) / pool
    assert unmeasured > 0.05
    assert shared.kv.low_tokens < (1 - unmeasured) * shared.kv.capacity_tokens, (
        "one term is not measured: its band stays"
    )
    assert shared.kv.low_tokens < 0.92 * shared.kv.capacity_tokens


def test_a_draft_that_the_plan_does_not_weigh_is_in_the_runtime():
    first = vllm_plan(draft=True)
    log = vllm_log(first, runtime_gib=4.0)
    found = started(first, log)
    second = vllm_plan(draft=True, measured=[found])
    assert term(second, "draft").bytes == 0
    assert term(second, "runtime").bytes == pytest.approx(4 * GIB, abs=0.03 * GIB)


def test_sglang_tells_what_was_gone_before_loading():
    wanted = Goal(engine="sglang", context_tokens=8192, engine_version="0.5.8")
    first = plan(GPUS, checkpoint(), wanted)[0]
    shown = GPUS.gpus[0].memory_bytes.value / GIB - 0.62
    log = f"[2026-11-15 10:00:00 TP0] Load weight begin. avail mem={shown - 3.5:.2f} GB\n"
    found = started(first, log)
    line = found.line("gpu0", "runtime")
    assert line is not None
    assert line.measured_bytes.value == pytest.approx(3.5 * GIB, abs=0.02 * GIB)
    second = plan(GPUS, checkpoint(), wanted, measured=[found])[0]
    assert term(second, "runtime").bytes == pytest.approx(3.5 * GIB, abs=0.02 * GIB)
    again = started(second, log).line("gpu0", "runtime")
    assert again is not None
    assert again.measured_bytes.value == pytest.approx(3.5 * GIB, abs=0.02 * GIB)


def test_metrics_tell_the_cache_of_every_rank_and_of_no_other_device():
    first = vllm_plan()
    told = Figure(value=3 * GIB, basis="measured", source="/metrics")
    found = started(first, "", pool_bytes=told)
    caches = {line.device: line.measured_bytes.value for line in found.lines if line.term == "kv_cache"}
    assert caches == {f"gpu{rank}": 3 * GIB for rank in range(8)}


def test_nothing_read_is_nothing_learned():
    first = vllm_plan()
    found = started(first, "no such words")
    assert [line.measured_bytes.value for line in found.lines] == [None] * len(found.lines)
    assert {line.within for line in found.lines} == {None}
    assert found.pool.measured_tokens.value is None
    assert vllm_plan(measured=[found]).ledger == first.ledger
