"""mlx_lm.server broken in six ways: what it leaves behind is named, and nobody waits for what has fallen."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from tests.conftest import TINY_FOLDER, Upright
from tests.mlx.conftest import HERE, WORDS, Standing, answer
from tests.ports import free_port

pytestmark = pytest.mark.slow


def other_type(model: Path) -> None:
    configured(model, model_type="deepseek_v9")


def other_width(model: Path) -> None:
    configured(model, moe_intermediate_size=64)


def configured(model: Path, **words: object) -> None:
    file = model / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **words}))


@pytest.mark.parametrize(
    ("broken", "code"),
    [(other_type, "mlx-model-type"), (other_width, "mlx-config-of-other-weights")],
)
def test_weights_that_do_not_load_end_the_wait(
    mlx_box: Upright, mlx_model: Path, tmp_path: Path, broken: Callable[[Path], None], code: str
):
    """The process stays and its page says 503: without a look at that an `up` would wait for ever."""
    model = Path(shutil.copytree(mlx_model, tmp_path / "broken"))
    recipe = answer(mlx_box("up", model, *WORDS, "--port", str(free_port()), "--dry-run", "--json"))
    broken(model)
    (tmp_path / "recipe.json").write_text(json.dumps(recipe))
    fallen = mlx_box("up", tmp_path / "recipe.json", timeout=60)
    assert fallen.returncode == 2
    assert "/health says 503" in fallen.stderr
    assert answer(mlx_box("diagnose", "--json"), code=1)["findings"][0]["code"] == code


def test_experts_in_16_bits_fall_at_the_first_question(
    mlx_box: Upright, mlx_model: Path, mlx_python: Path, tmp_path: Path
):
    model = Path(shutil.copytree(mlx_model, tmp_path / "weights"))
    recipe = answer(mlx_box("up", model, *WORDS, "--port", str(free_port()), "--dry-run", "--json"))
    (tmp_path / "recipe.json").write_text(json.dumps(recipe))
    shutil.rmtree(model)
    words = [mlx_python, HERE / "make_model.py", TINY_FOLDER, model, "bfloat16"]
    subprocess.run(words, check=True, capture_output=True)
    fallen = mlx_box("up", tmp_path / "recipe.json", timeout=90)
    assert fallen.returncode == 2, fallen.stdout + fallen.stderr
    assert answer(mlx_box("diagnose", "--json"), code=1)["findings"][0]["code"] == "mlx-experts-on-a-cpu"


def with_flag(standing: Standing, name: str, value: str, folder: Path) -> Path:
    """The standing deployment's recipe with one more flag, for another port."""
    recipe = json.loads((standing.home / "deployments" / standing.name / "recipe.json").read_text())
    recipe["port"] = free_port()
    for setting in recipe["arguments"]:
        if setting["name"] == "--port":
            setting["value"] = str(recipe["port"])
    recipe["arguments"].append({"name": name, "value": value, "reason": "by hand", "source": None})
    recipe.pop("digest")
    (folder / "recipe.json").write_text(json.dumps(recipe))
    return folder / "recipe.json"


def test_a_quantised_latent_cache_is_refused_before_it_starts(standing: Standing, tmp_path: Path):
    refused = standing.upright("up", with_flag(standing, "--kv-bits", "8", tmp_path))
    assert refused.returncode == 2
    assert "latent attention" in refused.stderr


def test_a_flag_of_another_engine_is_named(standing: Standing, mlx_box: Upright, tmp_path: Path):
    file = with_flag(standing, "--ctx-size", "4096", tmp_path)
    assert mlx_box("up", file, timeout=60).returncode == 2
    found = answer(mlx_box("diagnose", "--json"), code=1)["findings"][0]
    assert (found["code"], found["remedies"][0]["name"]) == ("python-unknown-flag", "--ctx-size")


def test_a_client_with_another_name_is_refused_and_the_model_comes_back(standing: Standing):
    def asked(model: str) -> int:
        body = {"model": model, "messages": [{"role": "user", "content": "What is 17 + 25?"}], "max_tokens": 4}
        url = f"{standing.base_url}/v1/chat/completions"
        return httpx2.post(url, json=body, timeout=60, trust_env=False).status_code

    assert (asked("gpt-4o"), asked("default_model")) == (404, 200)
