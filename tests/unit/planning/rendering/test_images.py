"""An image is an engine of its own: version, commit, variables, packages, and what it breaks."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.golden.deployments import COMMUNITY_IMAGE, NIGHTLY, recipe
from upright.app.cli import check as check_verb
from upright.app.cli import explain as explain_verb
from upright.app.cli import plan as plan_verb
from upright.app.cli import render as render_verb
from upright.app.cli import up as up_verb
from upright.base.errors import UsageError
from upright.facts import catalog
from upright.facts.records.box import Link
from upright.facts.records.plan import Goal
from upright.facts.records.recipe import Recipe, Setting
from upright.planning.choosing import plan
from upright.planning.rendering import render
from upright.planning.rendering.container import container_of
from upright.planning.rendering.recipe import RenderOptions
from upright.planning.rendering.writable import checked_writable
from upright.serving.check import check

SEED_000 = ("kimi-k2.6", "--box", "8x-rtx-pro-6000-server", "--image", COMMUNITY_IMAGE, "--port", "5000")
# As https://github.com/local-inference-lab/rtx6kpro/blob/master/models/kimi-k26-v4.md starts it; what names a port, a
# size or a cache folder of that machine is the plan's.
VARIABLES = {
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    "OMP_NUM_THREADS": "16",
    "CUTE_DSL_ARCH": "sm_120a",
    "CUDA_DEVICE_MAX_CONNECTIONS": "32",
    "NCCL_IB_DISABLE": "1",
    "NCCL_P2P_LEVEL": "SYS",
    "NCCL_PROTO": "LL,LL128,Simple",
    "USE_NCCL_XML": "0",
    "NCCL_GRAPH_FILE": "",
    "VLLM_NCCL_SO_PATH": "/opt/libnccl-pr2127.so.2.30.3",
    "LD_PRELOAD": "/opt/libnccl-pr2127.so.2.30.3",
    "VLLM_ENABLE_PCIE_ALLREDUCE": "1",
    "VLLM_PCIE_ALLREDUCE_BACKEND": "cpp",
    "VLLM_CPP_AR_1STAGE_NCCL_CUTOFF": "56KB",
    "VLLM_CPP_AR_IGNORE_CUTOFF_MAX_ROWS": "8",
    "VLLM_RTX6K_FUSED_ALLREDUCE_ADD": "0",
    "VLLM_RTX6K_FUSED_ALLREDUCE_ADD_END_BARRIER": "0",
    "VLLM_USE_B12X_SPARSE_INDEXER": "0",
    "VLLM_DISABLE_SHARED_EXPERTS_STREAM": "0",
    "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": "0",
    "VLLM_LOG_STATS_INTERVAL": "1",
    "VLLM_DISABLED_KERNELS": "MarlinFP8ScaledMMLinearKernel",
}


def typed(verb: object, *words: str) -> Result:
    done = CliRunner().invoke(verb.command, list(words))  # type: ignore[attr-defined]
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def test_the_first_choice_of_the_field_report_comes_out_as_it_was_run():
    made = json.loads(typed(render_verb, *SEED_000, "--json").stdout)
    words = {setting["name"]: setting["value"] for setting in made["arguments"]}
    variables = {setting["name"]: setting["value"] for setting in made["environment"]}
    assert VARIABLES.items() <= variables.items()
    assert made["runtime"] == "docker"
    assert made["port"] == 5000
    assert words["--max-model-len"] == "65536"
    assert words["--gpu-memory-utilization"] == "0.9"
    assert words["--kv-cache-dtype"] == "fp8"
    assert words["--attention-backend"] == "TRITON_MLA"
    assert "--disable-custom-all-reduce" not in words
    assert "--speculative-config" not in words
    assert "--language-model-only" in words


def test_the_script_names_the_build_and_not_a_release():
    text = typed(render_verb, *SEED_000, "--to", "docker").stdout
    assert "vllm 0.20.2rc1.dev249 at commit 68b3569f2" in text
    assert "vllm 0.32.0" not in text
    assert "--env LD_PRELOAD=/opt/libnccl-pr2127.so.2.30.3" in text
    assert "/opt/venv/bin/vllm" in text


def test_the_page_and_check_speak_of_the_same_build():
    assert "vLLM 0.20.2rc1.dev249 · TP8 · fp8 KV" in typed(plan_verb, *SEED_000[:5]).stdout
    done = typed(check_verb, *SEED_000)
    assert "0.20.2rc1.dev249 itself was never recorded" in done.stdout
    assert "images/" not in done.stdout


def test_the_planned_cache_is_near_what_the_image_reported():
    """478,992 tokens at 0.94 without a draft (rtx6kpro kimi-k26-v4.md)."""
    done = typed(plan_verb, *SEED_000[:5], "--gpu-memory-utilization", "0.94", "--json")
    assert json.loads(done.stdout)["plans"][0]["kv"]["capacity_tokens"] == pytest.approx(478_992, rel=0.03)


def test_a_recipe_that_lost_the_images_variables_is_told_so():
    made = recipe("kimi-k26-community-docker")
    bare = made.model_copy(update={"environment": made.environment[:1]})
    remarks = " ".join(check(bare).remarks)
    assert "vllm-image-pcie-variables" in remarks
    assert "vllm-image-patched-nccl" in remarks
    off = Setting(name="--disable-custom-all-reduce", reason="by hand")
    assert "vllm-image-own-all-reduce" in " ".join(
        check(made.model_copy(update={"arguments": (*made.arguments, off)})).remarks
    )


def test_without_peer_access_the_images_all_reduce_stays_off():
    """26 tok/s instead of 104 with it (rtx6kpro kimi-k26-prometheus-benchmark-refresh-2026-04-25.md)."""
    box = catalog.box_record("8x-rtx-pro-6000-server")
    links = tuple(Link(a=a, b=b, path="SYS", peer_access="CNS") for a in range(8) for b in range(a + 1, 8))
    box = box.model_copy(update={"links": links})
    names = _names(_rendered(box, COMMUNITY_IMAGE))
    assert "NCCL_P2P_DISABLE" in names
    assert "--disable-custom-all-reduce" in names
    assert "VLLM_ENABLE_PCIE_ALLREDUCE" not in names
    assert "LD_PRELOAD" in names


def test_another_models_variables_are_left_out():
    row = catalog.find_image(COMMUNITY_IMAGE)
    assert row is not None
    own = {setting.name for setting in row.variables if setting.models}
    box = catalog.box_record("8x-rtx-pro-6000-server")
    assert own <= _names(_rendered(box, COMMUNITY_IMAGE))
    assert own.isdisjoint(_names(_rendered(box, COMMUNITY_IMAGE, "glm-5")))


def test_the_b200_guide_comes_with_its_pin_and_its_draft():
    made = recipe("kimi-k26-b200-eagle3")
    assert made.packages == ("transformers==4.57.6",)
    assert made.draft == "lightseekorg/kimi-k2.6-eagle3"
    start = container_of(made).entrypoint[2]
    assert "pip install -q --user transformers==4.57.6 || exit 1; export VLLM_API_KEY=" in start
    text = typed(
        render_verb, *("kimi-k2.6", "--box", "hgx-b200", "--image", NIGHTLY, "--draft", "--to", "docker")
    ).stdout
    assert "upright fetch moonshotai/Kimi-K2.6; upright fetch lightseekorg/kimi-k2.6-eagle3" in text


def test_a_pin_that_cannot_be_installed_starts_no_engine_without_a_key(tmp_path: Path):
    """The very words, with a pip that fails."""
    pip = tmp_path / "pip"
    pip.write_text("#!/bin/sh\nexit 1\n")
    pip.chmod(0o755)
    start = container_of(recipe("kimi-k26-b200-eagle3")).entrypoint[2]
    done = subprocess.run(
        ["/bin/sh", "-c", start, "/bin/echo", "started"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
    )
    assert done.returncode == 1
    assert "started" not in done.stdout


@pytest.mark.parametrize("package", ["transformers", "x==1; touch y", "-r evil.txt", "x==$(id)"])
def test_a_recipe_cannot_install_what_is_no_package_with_a_version(package: str):
    with pytest.raises(UsageError, match="no package with its version"):
        checked_writable(recipe("kimi-k26-b200-eagle3").model_copy(update={"packages": (package,)}))


def test_an_image_is_not_started_as_a_process():
    with pytest.raises(UsageError, match="an image runs in a container"):
        typed(up_verb, "kimi-k2.6", "--image", COMMUNITY_IMAGE)


def test_explain_tells_what_is_in_an_image():
    text = " ".join(typed(explain_verb, COMMUNITY_IMAGE).stdout.split())
    assert "0.20.2rc1.dev249" in text
    assert "LD_PRELOAD=/opt/libnccl-pr2127.so.2.30.3" in text
    assert "does not count CUDA graphs" in text


def _rendered(box: object, image: str, model: str = "kimi-k2.6") -> Recipe:
    from upright.facts.catalog.model_records import records

    for artifact in records(catalog.model(model)):
        made = plan(box, artifact, Goal(engine="vllm", image=image))[0]  # type: ignore[arg-type]
        if made.fits:
            wishes = RenderOptions(must_be_installed=False)
            return render(made, artifact, box, model_path=artifact.source, port=8000, wishes=wishes)  # type: ignore[arg-type]
    pytest.fail(f"no artifact of {model} fits")


def _names(made: Recipe) -> set[str]:
    return {setting.name for setting in (*made.arguments, *made.environment)}
