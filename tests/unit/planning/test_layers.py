"""Plans for the llama.cpp family: layers, experts, scratch."""

from __future__ import annotations

import pytest

from tests.unit.planning.planning_examples import architecture
from upright import Goal
from upright.base.units import GIB, MIB
from upright.engines.facets.budget import Margin
from upright.facts import catalog
from upright.facts.catalog.model_records import records
from upright.facts.records.base import Figure
from upright.facts.records.model import Model
from upright.facts.records.plan import Plan
from upright.models.deriving.typed_gguf import gguf_of_type
from upright.planning.choosing import plan
from upright.planning.choosing.explanations import expert_words, spans
from upright.planning.memory.buffers import compute_buffer
from upright.planning.memory.file_sizes import LARGEST_DENSE, SMALLEST
from upright.planning.placement.layers import LayerCase, plan_in_layers

K26 = {model.name: model for model in records(catalog.model("kimi-k2.6"))}
IQ3_K = K26["Kimi-K2.6-GGUF:IQ3_K"]
TWO = catalog.box_record("2x-rtx-pro-6000-max-q-epyc-9175f")


def with_memory(name, gib):
    said = Figure(value=int(gib * GIB), basis="assumed", source="test")
    return catalog.box_record(name).model_copy(update={"memory_bytes": said, "memory_available_bytes": said})


def lines(found, device, term):
    return sum(line.bytes for line in found.ledger if (line.device, line.term) == (device, term))


def in_main_memory(found):
    return [layer for place in found.expert_places if place.device == "host" for layer in place.layers]


def test_every_byte_of_the_weights_is_somewhere():
    found = plan(TWO, IQ3_K, Goal(context_tokens=131_072))[0]
    placed = sum(line.bytes for line in found.ledger if line.term in ("weights", "experts"))
    assert placed == IQ3_K.tensor_bytes


def test_every_layer_of_experts_is_on_one_device():
    found = plan(TWO, IQ3_K)[0]
    layers = [layer for place in found.expert_places for layer in place.layers]
    assert sorted(layers) == list(range(1, 61))
    assert found.expert_places[0].layers[0] == 1
    assert found.expert_places[1].layers[-1] == 60
    assert expert_words(found.expert_places) == ("experts of layers 1-9 on gpu0, 52-60 on gpu1, 10-51 in system RAM")


def test_the_seeds_two_card_box_runs_iq3_k_with_room():
    found = plan(TWO, IQ3_K, Goal(context_tokens=131_768))[0]
    assert found.fits
    assert found.engine == "ik_llama.cpp"
    assert lines(found, "gpu0", "kv_cache") + lines(found, "gpu1", "kv_cache") == pytest.approx(8.62 * GIB, rel=0.002)


def test_with_every_expert_in_main_memory_a_card_holds_what_the_seed_saw():
    """About 11 GiB a GPU with --cpu-moe and 131,768 tokens in f16 and the engine's own ubatch of 512."""
    found = plan(TWO, IQ3_K, Goal(context_tokens=131_768))[0]
    assert found.ubatch_tokens == 4096
    bare = [lines(found, "gpu0", term) for term in ("weights", "kv_cache", "runtime")]
    bare.append(lines(found, "gpu0", "compute") * 512 // 4096)
    assert sum(bare) / GIB == pytest.approx(11, rel=0.1)


def test_one_card_and_512_gib_hold_the_model_and_384_do_not():
    small = with_memory("1x-rtx-pro-6000-server", 384)
    assert plan(with_memory("1x-rtx-pro-6000-server", 512), IQ3_K)[0].fits
    found = plan(small, IQ3_K)[0]
    assert [(each.code, each.device) for each in found.objections] == [("does-not-fit", "host")]


def test_four_cards_hold_two_bits_without_main_memory():
    found = plan(catalog.box_record("4x-rtx-pro-6000-server"), K26["Kimi-K2.6-GGUF:UD-Q2_K_XL"])[0]
    assert found.fits
    assert "host" not in {place.device for place in found.expert_places}
    assert lines(found, "gpu0", "upload") == 0


def test_experts_are_never_put_on_memory_that_nobody_vouches_for():
    found = plan(catalog.box_record("2x-rtx-pro-6000-server"), IQ3_K)[0]
    assert not found.fits


def test_unified_memory_is_counted_once():
    spark = catalog.box_record("dgx-spark")
    found = plan(spark, K26["Kimi-K2.6-GGUF:UD-Q2_K_XL"])[0]
    host = next(budget for budget in found.budgets if budget.device == "host")
    assert host.capacity_bytes == 0
    assert not found.fits


def test_types_that_only_ik_knows_are_refused_for_mainline():
    found = plan(TWO, IQ3_K, Goal(engine="llama.cpp"))[0]
    assert "ik-only-types" in {objection.code for objection in found.objections}


def test_more_context_moves_experts_to_main_memory():
    short, long = (plan(TWO, IQ3_K, Goal(context_tokens=context))[0] for context in (8_192, 262_144))
    kept = [
        sum(len(place.layers) for place in found.expert_places if place.device != "host") for found in (short, long)
    ]
    assert kept[0] > kept[1]


@pytest.mark.parametrize(
    ("ubatch", "context", "flash", "mib"),
    [(512, 32_768, True, 422), (512, 131_072, True, 518), (4096, 262_144, True, 5168), (512, 32_768, False, 4390)],
)
def test_scratch_as_the_engine_said_it(ubatch, context, flash, mib):
    """llama-fit-params b11669 on a full-size Kimi K2; tests/accuracy asks the engine itself."""
    found = compute_buffer(architecture(), ubatch_tokens=ubatch, context_tokens=context, flash_attention=flash)
    assert found.bytes / MIB == pytest.approx(mib, rel=0.01)


def test_spans():
    assert spans([3, 1, 2, 5, 7, 8]) == "1-3, 5, 7-8"


@pytest.mark.parametrize(
    ("model", "gpu", "gib", "longest"),
    [("gpt-oss-20b", "1x-rtx-4070-ti", 64, 512), ("gpt-oss-120b", "1x-rtx-4090", 96, 4096)],
)
def test_a_long_ubatch_is_not_paid_with_decode(model, gpu, gib, longest):
    """Scratch that is half of a layer of a large model is half of a small one: experts stay on the GPU then."""
    from upright.models.deriving.typed_gguf import gguf_of_type
    from upright.planning.requests.library import box_record

    said = Figure(value=int(gib * GIB), basis="assumed", source="test")
    box = box_record(gpu).model_copy(update={"memory_bytes": said, "memory_available_bytes": said})
    artifact = gguf_of_type(catalog.model(model), f"{model}:MXFP4_MOE")
    planned = plan(box, artifact, Goal(context_tokens=4096, engine="llama.cpp"))[0]
    assert planned.fits
    assert planned.ubatch_tokens == longest


def test_a_size_that_nobody_read_leaves_room_for_the_largest_build():
    """What fits only if the file is as small as planned is not said to fit."""
    build = gguf_of_type(catalog.model("gemma-4-31b"), "gemma-4-31b:Q4_K_M")
    assert build is not None
    on = catalog.box_record("1x-rtx-3090")

    def planned(model: Model) -> Plan:
        return plan_in_layers(
            LayerCase(on, model, Goal(context_tokens=4096), "llama.cpp", Margin(GIB), None, 4096, "f16", ())
        )

    derived, read = planned(build), planned(build.model_copy(update={"basis": "read"}))
    (weights,) = (line for line in derived.ledger if (line.device, line.term) == ("gpu0", "weights"))
    assert weights.high_bytes == pytest.approx(LARGEST_DENSE * weights.bytes, rel=1e-6)
    assert weights.low_bytes == pytest.approx(SMALLEST * weights.bytes, rel=1e-6)
    assert derived.kv.low_tokens < read.kv.low_tokens
    assert derived.kv.capacity_tokens == read.kv.capacity_tokens


def test_an_embedding_that_is_the_output_too_lies_beside_the_last_layer():
    """llama.cpp keeps a second copy there: of Gemma 4 31B 1.1 GiB."""
    build = gguf_of_type(catalog.model("gemma-4-31b"), "gemma-4-31b:Q4_K_M")
    assert build is not None
    on = catalog.box_record("1x-rtx-5090")
    goal = Goal(context_tokens=4096)
    found = plan_in_layers(LayerCase(on, build, goal, "llama.cpp", Margin(GIB), None, 4096, "f16", ()))
    held = {line.device: line.bytes for line in found.ledger if line.term == "weights"}
    embedding = sum(line.bytes for line in build.weights if line.group == "embedding")
    assert held["gpu0"] == pytest.approx(build.tensor_bytes, rel=1e-6)
    assert held["host"] == pytest.approx(embedding, rel=1e-6)
