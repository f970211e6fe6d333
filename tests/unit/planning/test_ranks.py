"""Plans for vLLM and SGLang: fractions, pools, objections, what would fit instead."""

from __future__ import annotations

import pytest

from upright import Goal, UprightError
from upright.base.units import GIB, MIB
from upright.engines.sglang.budget import default_share as sglang_default
from upright.facts import catalog
from upright.facts.catalog.model_records import records
from upright.planning.choosing import plan

BOX = catalog.box_record("8x-rtx-pro-6000-server")
K26 = records(catalog.model("kimi-k2.6"))

TERMS = ["weights", "replicated_weights", "absorbed_weights", "runtime", "graphs", "kv_cache"]


UPSTREAM = {"engine": "vllm", "engine_version": "0.32.0"}


def best(box=BOX, model=K26[0], **goal):
    return plan(box, model, Goal(**goal))[0]


def test_the_ledger_adds_up_on_every_gpu():
    found = best()
    for index in range(8):
        lines = [line for line in found.ledger if line.device == f"gpu{index}"]
        assert {line.term for line in lines} >= {
            "weights",
            "replicated_weights",
            "absorbed_weights",
            "runtime",
            "kv_cache",
        }
        assert found.used_bytes(f"gpu{index}") == sum(line.bytes for line in lines)
        assert found.headroom_bytes(f"gpu{index}") > 0
    assert all(line.low_bytes <= line.bytes <= line.high_bytes for line in found.ledger)


def test_a_cache_is_shared_where_the_goal_needs_it_or_a_build_was_measured_to_be_faster_so():
    assert best(context_tokens=65_536).parallel.decode_context == 1
    assert best(context_tokens=131_072).parallel.decode_context == 1, "upstream: nobody ran DCP on it"
    assert best(context_tokens=131_072, engine="vllm", image=IMAGE).parallel.decode_context == 2
    assert best(context_tokens=262_144).parallel.decode_context == 2
    assert best(context_tokens=262_144, users=4).parallel.decode_context == 8


def test_context_parallelism_multiplies_the_pool():
    one, eight = best(decode_context_parallel=1), best(decode_context_parallel=8)
    assert eight.kv.capacity_tokens / one.kv.capacity_tokens == pytest.approx(8, rel=0.01)
    assert (one.kv.copies, eight.kv.copies) == (8, 1)


IMAGE = "voip-glm-kimi-canonical-20260514"


def test_fp8_doubles_the_pool_and_does_not_run_on_sm120_unless_the_image_carries_it():
    wide, narrow = best(decode_context_parallel=1), best(**UPSTREAM, kv_dtype="fp8", decode_context_parallel=1)
    assert narrow.kv.capacity_tokens / wide.kv.capacity_tokens == pytest.approx(2, rel=0.001)
    (no,) = narrow.objections
    assert (no.code, IMAGE in no.remedy) == ("cache-not-supported", True)
    assert [offer.options for offer in narrow.nearest] == [
        ("--kv-dtype", "bf16"),
        ("--kv-dtype", "fp8", "--image", IMAGE),
    ]
    assert best(kv_dtype="fp8", image=IMAGE).fits
    by_image = best(engine="vllm", kv_dtype="fp8", decode_context_parallel=8)  # what only an image answers, it answers
    assert (by_image.fits, by_image.goal.image) == (True, IMAGE)
    assert best(image=IMAGE).kv.dtype == "fp8"
    assert best(box=catalog.box_record("hgx-b200"), engine="vllm", kv_dtype="fp8").fits


def test_an_image_that_nobody_knows_is_planned_as_upstream_and_said_so():
    found = best(image="somebody/vllm:latest")
    assert found.kv.dtype == "bf16"
    assert "unknown-image" in {note.code for note in found.notes}


def test_three_ranks_are_refused_and_not_answered_with_another_format():
    found = plan(BOX, K26[0], Goal(tensor_parallel=3), choose_from=K26[1:])[0]
    assert (found.engine, found.model) == ("vllm", K26[0].name)
    assert found.objections[0].code == "heads-not-divisible"
    assert found.objections[0].remedy == "--tp 8"
    assert found.nearest[0].options == ("--tp", "8")


def test_graphs_are_inside_the_fraction_since_vllm_0_21():
    new, old = (best(engine="vllm", engine_version=version) for version in ("0.32.0", "0.20.0"))
    assert {line.term for line in new.ledger if line.device == "gpu0"} >= {"graphs"}
    assert {line.term for line in old.ledger if line.device == "gpu0"} >= {"graphs_outside"}
    assert old.kv.capacity_tokens > new.kv.capacity_tokens


def test_a_draft_costs_weights_room_and_a_layer_of_cache():
    plain, drafted = best(decode_context_parallel=1), best(draft=True, decode_context_parallel=1)
    assert drafted.kv.bytes_per_token == 62 * 576 * 2
    assert drafted.kv.capacity_tokens < plain.kv.capacity_tokens


@pytest.mark.parametrize(("draft", "band"), [(False, "15 %"), (True, "35 %")])
def test_a_tight_plan_names_the_band_it_was_planned_with(draft, band):
    room = best(draft=draft, decode_context_parallel=1, **UPSTREAM).kv
    between = (room.low_tokens + room.capacity_tokens) // 2
    tight = best(draft=draft, decode_context_parallel=1, **UPSTREAM, context_tokens=between)
    (note,) = (note for note in tight.notes if note.code == "tight")
    assert note.message == f"by the best figure it fits, within the band of {band} it may not"


def test_the_pool_is_a_whole_number_of_blocks():
    assert best().kv.capacity_tokens % 16 == 0
    assert best(decode_context_parallel=8).kv.capacity_tokens % 128 == 0


def test_what_does_not_fit_says_how_much_and_where():
    four = catalog.box_record("4x-rtx-pro-6000-server")
    found = best(box=four)
    (objection,) = found.objections
    assert (objection.code, objection.device) == ("weights-too-large", "gpu0")
    assert objection.short_bytes == pytest.approx(58.9 * GIB, rel=0.01)


def test_nearest_things_fit_when_they_are_planned_again():
    four = catalog.box_record("4x-rtx-pro-6000-server")
    assert plan(four, K26[0], Goal(), choose_from=K26[1:])[0].model == "Kimi-K2.6-GGUF:UD-Q2_K_XL"  # the last resort
    found = plan(four, K26[0], Goal(), others=K26[1:])[0]
    assert not found.fits
    offers = [offer for offer in found.nearest if offer.artifact]
    assert {offer.artifact for offer in offers} >= {"unsloth/Kimi-K2.6-GGUF:UD-Q2_K_XL"}
    for offer in offers:
        artifact = next(model for model in K26 if model.source == offer.artifact)
        again = plan(four, artifact, Goal(context_tokens=offer.context_tokens))[0]
        assert again.fits
        assert again.kv.low_tokens == offer.capacity_tokens


def test_a_pool_that_is_too_small_is_mended_by_settings_first():
    found = best(context_tokens=262_144, decode_context_parallel=1, **UPSTREAM)
    assert [objection.code for objection in found.objections] == ["pool-too-small"]
    assert ("--dcp", "8") in [offer.options for offer in found.nearest]


@pytest.mark.parametrize(
    ("goal", "code"),
    [
        ({"tensor_parallel": 16}, "too-few-gpus"),
        ({"tensor_parallel": 7}, "heads-not-divisible"),
        ({"decode_context_parallel": 3}, "dcp-not-divisor"),
        ({"engine": "sglang", "engine_version": "0.5.14", "decode_context_parallel": 8}, "no-dcp"),
        ({"engine": "llama.cpp"}, "wrong-format"),
        ({"context_tokens": 1_000_000}, "context-too-long"),
    ],
)
def test_wrong_settings_are_objections(goal, code):
    assert code in {objection.code for objection in best(**goal).objections}


@pytest.mark.parametrize("goal", [{"engine": "ollama"}, {"kv_dtype": "q3_9"}, {"memory_fraction": 1.4}, {"users": 0}])
def test_misuse_is_an_error_with_a_hint(goal):
    with pytest.raises(UprightError):
        best(**goal)


def test_a_box_without_a_gpu_is_told_so():
    found = plan(catalog.box_record("laptop"), K26[0])[0]
    assert found.objections[0].code == "no-gpu"


# What the SM120 report of 2026-01-29 ran: SGLang, TP8, bf16, 72.33 GiB of weights, 0.30 GiB of cache, 19.71 GiB free.
MEASURED_POOL, MEASURED_FREE = 0.30, 19.71


def test_kimi_k25s_pool_of_4578_tokens_was_the_memory_fraction():
    # SGLang's own rule, which nobody had overridden: 0.848, 5 % less for a model that sees, and a tenth less for every
    # ViT-L/14 that its tower (27 layers, 1152 wide) is larger than one (sglang/srt/server_args.py). The run's log says
    # mem_fraction_static=0.77146, 94.14 GiB free before loading, 21.82 after it.
    text = sglang_default(97_887 * MIB, 8)
    towered = text * 0.95 * (1 - 0.1 * (27 * 1152**2 / (24 * 1024**2) - 1))
    assert (text, round(towered, 5)) == (0.848, 0.77146)
    pool = 21.82 - 94.14 * (1 - towered)
    assert pool == pytest.approx(MEASURED_POOL, abs=0.02)
    # Free afterwards was less than the share leaves: 2,048 requests x 262,144 positions of 4 bytes lie beside the pool.
    assert 21.82 - pool - MEASURED_FREE == pytest.approx(2048 * 262_144 * 4 / GIB, abs=0.2)
    found = best(
        box=catalog.box_record("8x-rtx-pro-6000-server-dual-socket"),
        model=records(catalog.model("kimi-k2.5"))[0],
        engine="sglang",
        engine_version="0.5.8",
        memory_fraction=towered,
    )
    # 80 MiB a GPU, of 94 GiB, make the difference to 4,578.
    assert found.kv.capacity_tokens < 6_000
    note = next(note for note in found.notes if note.code == "unused-memory")
    assert "21.4 GiB of each GPU stay unused, KV cache for 326,000 tokens" in note.message
    assert note.remedy == "--gpu-memory-utilization 0.93, which SGLang calls --mem-fraction-static"
    newer = ("--engine-version", "0.5.9", "--gpu-memory-utilization", "0.93")
    assert newer in [offer.options for offer in found.nearest]


def test_the_way_up_starts_safe_and_takes_one_setting_at_a_time():
    climb = best().rungs
    assert [(rung.name, rung.context_tokens) for rung in climb] == [
        ("safe-start", 65_536),
        ("context", 98_304),
        ("context", 131_072),
        ("context", 262_144),
        ("dcp", 65_536),
        ("memory", 65_536),
        ("draft", 65_536),
        ("vision", 65_536),
    ]
    assert not climb[0].draft
    assert "with DCP 2" in climb[3].why


@pytest.mark.parametrize(("use", "context"), [("chat", 32_768), ("batch", 8_192), ("long-documents", 131_072)])
def test_a_use_has_its_own_start(use, context):
    assert best(use=use).context_tokens == context


@pytest.mark.parametrize(("name", "engine"), [("laptop", "vllm"), ("laptop", "sglang"), ("dgx-spark", "vllm")])
def test_more_gpus_are_not_offered_where_none_can_be_put_in(name, engine):
    found = best(catalog.box_record(name), engine=engine)
    assert not found.fits
    assert not [each for each in found.nearest if "such GPUs" in each.change]
