"""Ten commands, and what the real vLLM's own start code says of each, on GPUs that are not here."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.programs import made_by
from upright.facts.records.check import RecipeCheck
from upright.facts.records.plan import Goal
from upright.facts.records.recipe import Recipe, Setting
from upright.planning.rendering.recipe import RenderOptions
from upright.planning.requests.plan_arguments import NamedBox, make_plan_request
from upright.planning.requests.preparation import Prepared, named_path, prepare
from upright.serving.check import DeepCheck, check

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
CPU_SECONDS = 60


@pytest.fixture(scope="module")
def phantom() -> str:
    return os.environ.get("UPRIGHT_TEST_PHANTOM") or made_by("get-phantom")


def prepared(model: str, box: str, **goal: object) -> Prepared:
    request = make_plan_request(model, NamedBox(box), Goal(engine="vllm", **goal))
    return prepare(request, named_path, port=8000, wishes=RenderOptions(must_be_installed=False))


def with_settings(recipe: Recipe, **settings: str) -> Recipe:
    named = {f"--{name.replace('_', '-')}": setting for name, setting in settings.items()}
    kept = [setting for setting in recipe.arguments if setting.name not in named]
    added = [Setting(name=name, value=setting, reason="a test") for name, setting in named.items()]
    return recipe.model_copy(update={"arguments": (*kept, *added)})


def asked(made: Prepared, phantom: str, change: Callable[[Recipe], Recipe] = lambda recipe: recipe) -> RecipeCheck:
    assert made.recipe is not None, made.plan.objections
    before = os.times()
    found = check(change(made.recipe), program=phantom, deep=DeepCheck(made.model, made.box, made.plan))
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    assert spent < CPU_SECONDS
    assert found.start is not None
    return found


@pytest.mark.parametrize(
    ("model", "box", "goal"),
    [
        ("MiniMaxAI/MiniMax-M2.7", "4x-h100-sxm", {"tensor_parallel": 4}),
        ("openai/gpt-oss-20b", "1x-h100-sxm", {}),
        ("openai/gpt-oss-120b", "2x-h100-sxm", {"tensor_parallel": 2}),
        ("Qwen/Qwen3-30B-A3B", "1x-rtx-pro-6000-server", {}),
        ("Qwen/Qwen3-32B", "2x-rtx-pro-6000-server", {"tensor_parallel": 2}),
    ],
)
def test_five_that_are_right_are_accepted_with_the_engines_own_pool(
    phantom: str, model: str, box: str, goal: dict[str, int]
):
    made = prepared(model, box, **goal)
    start = asked(made, phantom).start
    assert (start.verdict, start.stage) == ("accepts", "scheduler"), (start.why, start.sentence)
    best = made.plan.kv
    print(f"\n{model}: {start.pool_tokens:,} by the engine, {best.low_tokens:,} to {best.high_tokens:,} planned")
    assert start.weight_bytes
    assert start.pool_tokens


def test_six_ranks_are_refused_by_eight_heads(phantom: str):
    made = prepared("MiniMaxAI/MiniMax-M2.7", "6x-h100-sxm", tensor_parallel=4)

    def on_six(recipe: Recipe) -> Recipe:
        return with_settings(recipe, tensor_parallel_size="6").model_copy(update={"gpus": len(made.box.gpus)})

    found = asked(made, phantom, on_six)
    assert found.verdict == "refused"
    assert "total_num_kv_heads % tp_size == 0" in found.start.sentence
    assert (found.start.file, found.start.line) == ("vllm/model_executor/models/minimax_m2.py", 164)


def test_sparse_attention_on_sm80_is_refused(phantom: str):
    made = prepared("nvidia/DeepSeek-V3.2-NVFP4", "8x-h200-sxm", tensor_parallel=8)
    older = [gpu.model_copy(update={"compute_capability": "8.0", "row": "a100-sxm-80gb"}) for gpu in made.box.gpus]
    box = made.box.model_copy(update={"gpus": tuple(older)})
    found = check(
        with_settings(made.recipe, kv_cache_dtype="auto"),
        program=phantom,
        deep=DeepCheck(made.model, box, made.plan),
    )
    assert found.start.verdict == "refuses"
    assert "No valid attention backend found" in found.start.sentence
    assert found.start.file == "vllm/platforms/cuda.py"


def test_a_cache_type_without_a_backend_is_refused(phantom: str):
    made = prepared("Qwen/Qwen3-30B-A3B", "1x-h100-sxm")
    found = asked(made, phantom, lambda recipe: with_settings(recipe, kv_cache_dtype="fp8_ds_mla"))
    assert found.start.verdict == "refuses", found.start


def test_a_length_beyond_the_pool_is_refused(phantom: str):
    made = prepared("Qwen/Qwen3-30B-A3B", "1x-rtx-pro-6000-server")
    weights = sum(line.bytes for line in made.plan.ledger if line.term not in ("kv_cache", "state", "process"))
    tight = tuple(budget.model_copy(update={"capacity_bytes": weights + (1 << 30)}) for budget in made.plan.budgets)
    tighter = made.plan.model_copy(update={"budgets": tight})
    longer = with_settings(made.recipe, max_model_len="40000")
    found = check(longer, program=phantom, deep=DeepCheck(made.model, made.box, tighter))
    assert found.start.verdict == "refuses"
    assert found.start.stage == "pool"


def test_without_a_companion_package_it_is_not_known(phantom: str, tmp_path: Path):
    """The same environment, without FlashInfer."""
    made = prepared("deepseek-ai/DeepSeek-V4-Flash", "4x-rtx-pro-6000-server", tensor_parallel=4)
    packages = next(Path(phantom).glob("lib/python3*/site-packages"))
    beside = tmp_path / "venv" / "lib" / packages.parent.name / "site-packages"
    beside.mkdir(parents=True)
    for entry in packages.iterdir():
        if not entry.name.startswith("flashinfer"):
            (beside / entry.name).symlink_to(entry)
    for name in ("share", "lib/device_guard.so", "pyvenv.cfg"):
        (tmp_path / "venv" / name).symlink_to(Path(phantom) / name)
    (tmp_path / "venv" / "bin").mkdir()
    (tmp_path / "venv" / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    found = asked(made, str(tmp_path / "venv"))
    assert found.start.verdict == "not-known"
    assert found.verdict == "accepted"
    assert "flashinfer" in " ".join(found.start.not_asked).lower()
