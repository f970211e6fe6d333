"""KTransformers: experts in system RAM under ranks on GPUs, its flags from its own parser, its reports as rows."""

from __future__ import annotations

import pytest

import upright
from upright.base.units import GIB
from upright.engines import engine_named
from upright.engines.ktransformers.cpu_formats import experts_on_gpus, host_format
from upright.facts import catalog
from upright.facts.catalog.recorded_flags import nearest_flags
from upright.facts.records.base import Figure
from upright.models.deriving.catalogue_models import records

ENGINE = "ktransformers"
KIMI = "kimi-k2.5"


def box_with(ram):
    box = catalog.box_record("2x-rtx-pro-6000-max-q")
    memory = Figure(value=int(ram), basis="assumed", source="the test")
    return box.model_copy(update={"memory_bytes": memory, "memory_available_bytes": memory})


def planned(model="kimi-k2.6", ram=1e12, **wishes):
    return upright.plan(model, box_with(ram), engine=ENGINE, **wishes)[0]


def artifact(name):
    return records(catalog.model(name))[0]


def placed(plan, device, *terms):
    return sum(line.bytes for line in plan.ledger if line.device == device and line.term in terms) / GIB


def test_every_expert_lies_in_system_ram_and_some_on_the_gpus_too():
    plan = planned()
    assert plan.fits
    assert plan.parallel.tensor == 2
    on_gpus = experts_on_gpus(plan, artifact("kimi-k2.6"))
    assert 0 < on_gpus < 384
    assert placed(plan, "host", "experts") == pytest.approx(531.6, rel=0.01)
    assert placed(plan, "gpu0", "experts") == pytest.approx(531.6 * on_gpus / 384 / 2, rel=0.02)


def test_too_little_ram_is_an_objection_though_ram_and_vram_together_would_do():
    plan = planned("moonshotai/Kimi-K2.6", ram=512e9)
    assert [objection.code for objection in plan.objections] == ["does-not-fit"]
    assert "it holds every routed expert" in plan.objections[0].message


def test_it_is_planned_by_name_only_and_its_speed_is_not_known():
    assert planned().speed is None
    assert all(plan.engine != ENGINE for plan in upright.plan("kimi-k2.6", "8x-rtx-pro-6000-server"))


# Logs that people published: what a rank's weights took, what a GPU held in all, what lay in system RAM.
@pytest.mark.parametrize(
    ("tensor", "experts", "measured_gib"),
    [pytest.param(2, 1, 14.32, id="issues-1835: Load weight end, mem usage=14.32 GB")],
)
def test_weights_of_a_rank_are_as_its_log_says(tensor, experts, measured_gib):
    plan = planned(model=KIMI, tensor_parallel=tensor)
    held = placed(plan, "gpu0", "weights", "replicated_weights", "absorbed_weights", "tables")
    expert = placed(plan, "host", "experts") / 384 / tensor
    assert held + experts * expert == pytest.approx(measured_gib, rel=0.05)


@pytest.mark.parametrize(
    ("context", "experts", "measured_gib"),
    [
        pytest.param(32_768, 1, 31, id="issues-1817: 32K of cache and 1 expert"),
        pytest.param(65_536, 5, 39, id="issues-1817: 64K of cache and 5 experts"),
    ],
)
def test_a_gpu_holds_what_its_makers_measured(context, experts, measured_gib):
    plan = planned(model=KIMI, tensor_parallel=1, context_tokens=context)
    held = placed(
        plan, "gpu0", "weights", "replicated_weights", "absorbed_weights", "tables", "runtime", "graphs", "kv_cache"
    )
    expert = placed(plan, "host", "experts") / 384
    assert held + experts * expert == pytest.approx(measured_gib, rel=0.12)


def test_system_ram_is_what_a_person_saw():
    """600 GB after loading, with 8 experts of each layer on one GPU: issues-1816."""
    plan = planned(model=KIMI, tensor_parallel=1)
    assert placed(plan, "host", "experts", "process") * GIB == pytest.approx(600e9, rel=0.05)


def test_its_flags_are_those_of_its_own_parser():
    recorded = nearest_flags(ENGINE, "0.7.2")
    assert recorded is not None
    plan = planned(engine_version="0.7.2")
    recipe = upright.render(
        plan, artifact("kimi-k2.6"), box_with(1e12), model_path="/models/k2", must_be_installed=False
    )
    words = [setting.name for setting in recipe.arguments if setting.name.startswith("--")]
    assert set(words) <= recorded.flags
    assert {"--kt-method", "--kt-weight-path", "--kt-num-gpu-experts"} <= set(words)
    assert "--kt-gpu-prefill-token-threshold" not in words


@pytest.mark.parametrize(
    ("quantisation", "method"),
    [
        ("compressed-tensors INT4 W4A16, groups of 32, routed experts only", "RAWINT4"),
        ("FP8, blocks of 128", "FP8"),
        (None, "BF16"),
        ("ModelOpt NVFP4 experts, the rest bf16", None),
        ("AWQ INT4 experts, the rest bf16", None),
    ],
)
def test_the_kernel_follows_from_how_experts_are_stored(quantisation, method):
    assert host_format(quantisation).name == method


def test_its_reports_of_corruption_are_rows_with_sources():
    rows = [row for row in catalog.rows("compat").values() if row.engine == ENGINE]
    assert len(rows) >= 5
    assert all("ktransformers" in row.sources[0] for row in rows)
    assert engine_named(ENGINE).by_name_only
