"""What each engine says of a plan: the published runs' settings come out by themselves, by silicon and by version."""

from __future__ import annotations

import pytest

from tests.golden.deployments import PUBLISHED, recipe
from upright.base.errors import EngineError
from upright.engines import ENGINES, engine_named, gpu_settings, model_settings
from upright.facts import catalog
from upright.facts.catalog.model_records import records
from upright.facts.records.box import Box, EngineInstall
from upright.facts.records.model import Model
from upright.facts.records.plan import Goal, Plan
from upright.facts.records.recipe import KEY, Recipe
from upright.planning.choosing import plan
from upright.planning.rendering import render
from upright.planning.rendering.recipe import RenderOptions

SM120, SM100, HYBRID = "8x-rtx-pro-6000-server-dual-socket", "synthetic-hgx-b200", "2x-rtx-pro-6000-max-q-epyc-9175f"


def words(made: Recipe) -> dict[str, str | None]:
    return {setting.name: setting.value for setting in made.arguments}


def variables(made: Recipe) -> dict[str, str | None]:
    return {setting.name: setting.value for setting in made.environment}


def planned(box: Box, name: str = "Kimi-K2.6", **goal: object) -> tuple[Plan, Model]:
    model = next(each for each in records(catalog.model(name)) if each.name == name)
    return plan(box, model, Goal(**goal))[0], model


def rendered(box: Box, name: str = "Kimi-K2.6", wishes: RenderOptions | None = None, **goal: object) -> Recipe:
    made, model = planned(box, name, **goal)
    wishes = wishes or RenderOptions(must_be_installed=False)
    return render(made, model, box, model_path=model.source, port=8000, wishes=wishes)


def test_sm120_and_sm100_are_different_worlds():
    workstation = rendered(catalog.box_record(SM120), engine="vllm")
    datacentre = rendered(catalog.box_record(SM100), engine="vllm")
    assert words(workstation)["--attention-backend"] == "TRITON_MLA"
    assert "--disable-custom-all-reduce" in words(workstation)
    assert variables(workstation)["NCCL_P2P_LEVEL"] == "SYS"
    assert "--compilation-config" not in words(workstation)
    assert "--attention-backend" not in words(datacentre)
    assert "--disable-custom-all-reduce" not in words(datacentre)
    assert "NCCL_P2P_LEVEL" not in variables(datacentre)
    assert words(datacentre)["--compilation-config"] == '{"pass_config":{"fuse_allreduce_rms":true}}'


@pytest.mark.parametrize(("gpus", "off"), [(1, False), (2, False), (3, True), (4, True), (8, True)])
def test_the_custom_all_reduce_is_off_from_three_gpus_on_pcie(gpus: int, off: bool):
    box = catalog.box_record(SM120)
    made, _ = planned(box, engine="vllm")
    spread = made.model_copy(update={"parallel": made.parallel.model_copy(update={"tensor": gpus})})
    assert bool(gpu_settings.custom_all_reduce_settings(spread, box, "--flag")) is off


def test_the_draft_follows_the_silicon():
    row = catalog.model("kimi-k2.6")
    for box, attention in ((SM120, "mla"), (SM100, "mha")):
        machine = catalog.box_record(box)
        found = model_settings.planned_draft(row, planned(machine, engine="vllm", draft=True)[0], machine)
        assert found is not None
        assert found.attention == attention
        assert model_settings.planned_draft(row, planned(machine, engine="vllm")[0], machine) is None


def test_peers_that_the_driver_refuses_are_not_tried():
    box = catalog.box_record(SM120)
    links = tuple(link.model_copy(update={"peer_access": "CNS"}) for link in box.links)
    made = rendered(box.model_copy(update={"links": links}), engine="vllm")
    assert variables(made)["NCCL_P2P_DISABLE"] == "1"
    assert "NCCL_P2P_LEVEL" not in variables(made)


@pytest.mark.parametrize(("path", "level"), [("PIX", "PIX"), ("PXB", "PXB"), ("PHB", "PHB"), ("NODE", "SYS")])
def test_the_level_is_the_farthest_pairs_word(path: str, level: str):
    box = catalog.box_record(SM120)
    links = tuple(link.model_copy(update={"path": path}) for link in box.links)
    made, _ = planned(box, engine="vllm")
    found = gpu_settings.nccl(made, box.model_copy(update={"links": links}))
    assert [(setting.name, setting.value) for setting in found] == [("NCCL_P2P_LEVEL", level)]


def test_fp8_on_sm120_is_refused_unless_the_image_is_patched():
    box = catalog.box_record(SM120)
    with pytest.raises(EngineError, match="101,376"):
        rendered(box, engine="vllm", engine_version="0.32.0", kv_dtype="fp8")
    patched = rendered(
        box,
        wishes=RenderOptions(must_be_installed=False, patched=True),
        engine="vllm",
        engine_version="0.32.0",
        kv_dtype="fp8",
    )
    assert not any("101,376" in note for note in patched.notes)
    assert any("proved at the context" in note for note in patched.notes)


def test_versions_speak_for_themselves():
    box = catalog.box_record(SM120)
    old = rendered(box, engine="sglang", engine_version="0.5.8")
    assert any("0.5.9" in note and "106496" in note for note in old.notes)
    slow = rendered(box, engine="vllm", engine_version="0.28.0", draft=True)
    assert any("47144" in note for note in slow.notes)
    pinned = rendered(box, engine="vllm", engine_version="0.20.0")
    assert any("4.57.6" in note for note in pinned.notes)
    assert not any("4.57.6" in note for note in rendered(box, engine="vllm", engine_version="0.32.0").notes)


def test_a_pinned_revision_still_needs_the_old_transformers():
    box = catalog.box_record(SM120)
    made, model = planned(box, engine="vllm", engine_version="0.20.0")
    pinned = model.model_copy(update={"revision": "0" * 40})
    found = render(made, pinned, box, model_path=model.source, port=8000, wishes=RenderOptions(must_be_installed=False))
    assert any("4.57.6" in note for note in found.notes)
    assert not any("no revision is pinned" in note for note in found.notes)


def test_experts_in_main_memory():
    made = recipe("kimi-k26-ik-llama")
    placed = [setting.value for setting in made.arguments if setting.name == "--override-tensor"]
    assert placed[-1] == "exps=CPU"
    assert str(placed[0]).startswith(r"blk\.([1-9])")
    assert str(placed[0]).endswith("=CUDA0")
    said = words(made)
    assert (said["-mla"], said["-amb"], said["--threads"], said["--threads-batch"]) == ("3", "512", "15", "32")
    assert said["--chat-template-kwargs"] == '{"thinking":false}'
    assert said["--temp"] == "0.6"
    assert not {"-fmoe", "-muge", "-ger", "--special", "--warmup-batch"} & set(said)


def test_thinking_stays_on_where_everything_is_on_gpus():
    assert "--default-chat-template-kwargs" not in words(recipe("kimi-k26-vllm"))


def test_text_first_and_images_when_asked():
    assert "--language-model-only" in words(recipe("kimi-k26-vllm"))
    images = words(recipe("kimi-k26-b200-eagle3"))
    assert images["--mm-encoder-tp-mode"] == "data"
    assert "--language-model-only" not in images


def test_graphs_cover_every_guess():
    said = words(recipe("kimi-k26-b200-eagle3"))
    assert int(said["--max-cudagraph-capture-size"] or 0) == 4 * int(said["--max-num-seqs"] or 0)


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_key_is_a_placeholder(name: str):
    made = recipe(name)
    ways = {"environment": KEY in variables(made).values(), "config": "--config" in words(made)}
    assert ways.get(made.key_way, "--api-key-file" in words(made))


def test_an_installed_engine_is_started_as_it_was_found():
    box = catalog.box_record(SM120)
    module = EngineInstall(
        engine="vllm", version="0.32.0", program="/v/python", module="vllm.entrypoints.openai.api_server"
    )
    made = rendered(box.model_copy(update={"engines": (module,)}), engine="vllm", wishes=RenderOptions())
    assert made.argv[:4] == ("/v/python", "-m", "vllm.entrypoints.openai.api_server", "--model")
    command = EngineInstall(engine="sglang", version="0.5.23", program="/v/sglang")
    made = rendered(box.model_copy(update={"engines": (command,)}), engine="sglang", wishes=RenderOptions())
    assert made.argv[:3] == ("/v/sglang", "serve", "--model-path")


def test_an_engine_that_is_not_there():
    with pytest.raises(EngineError, match="vllm is not on"):
        rendered(catalog.box_record(SM120), engine="vllm", wishes=RenderOptions())
    with pytest.raises(EngineError, match="no engine named"):
        engine_named("tgi")


def test_every_engine_says_where_it_comes_from():
    assert all(engine.where_from and engine.program for engine in ENGINES.values())
