"""ik_llama.cpp's own libraries, as PyPI has them for processors: what they load, and what our rows say of it."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import TINY_MODEL, Upright
from tests.programs import made_by
from upright.engines import engine_named
from upright.engines.constraints import Situation, breaches
from upright.facts.records.recipe import AttentionName, Circumstances
from upright.flows.line import demo

pytestmark = [pytest.mark.slow, pytest.mark.engine]
CHAT = (
    "<|im_system|>system<|im_middle|>You are Tiny Kimi.<|im_end|><|im_user|>user<|im_middle|>What is the capital of "
    "France?<|im_end|><|im_assistant|>assistant<|im_middle|><think></think>"
)
TYPES = engine_named("ik_llama.cpp").cache_types


@pytest.fixture(scope="session")
def python() -> Path:
    return Path(made_by("get-ik")) / "bin/python"


@pytest.fixture(scope="session")
def latent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model of `upright demo`."""
    model = tmp_path_factory.mktemp("model") / demo.TINY_MODEL.stem
    model.write_bytes(gzip.decompress(demo.TINY_MODEL.read_bytes()))
    return model


def asked(python: Path, model: Path, cache_type: str, prompt: str) -> tuple[str | None, str]:
    """What it goes on with, None if it fell; and all that it printed."""
    words = [python, Path(__file__).with_name("ask.py"), model, cache_type, prompt]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120, check=False)
    said = [line.removeprefix("ANSWER ") for line in done.stdout.splitlines() if line.startswith("ANSWER ")]
    return (json.loads(said[0]) if done.returncode == 0 else None), done.stdout + done.stderr


def refused(cache_type: str, attention: AttentionName) -> bool:
    situation = Situation("ik_llama.cpp", None, Circumstances(attention=(attention,)), {"cache_type": cache_type})
    return any(breach.refused for breach in breaches(situation))


@pytest.mark.parametrize("cache_type", TYPES)
def test_a_latent_cache_answers_where_we_say_so(python: Path, latent: Path, cache_type: str) -> None:
    answer, _ = asked(python, latent, cache_type, CHAT)
    assert (answer == "The capital of France is Paris.") is not refused(cache_type, "dense-mla"), answer


@pytest.mark.parametrize("cache_type", TYPES)
def test_heads_of_their_own_answer_where_we_say_so(python: Path, smollm2: Path, cache_type: str) -> None:
    answer, _ = asked(python, smollm2, cache_type, "The capital of France is")
    assert ((answer or "").startswith(" Paris.")) is not refused(cache_type, "gqa"), answer


def test_another_geometry_falls_and_is_named(python: Path, upright: Upright, tmp_path: Path) -> None:
    answer, printed = asked(python, TINY_MODEL, "f16", CHAT)
    assert answer is None
    log = tmp_path / "engine.log"
    log.write_text(printed)
    done = upright("diagnose", log, "--engine", "ik_llama.cpp", "--json")
    assert json.loads(done.stdout)["code"] == "ik-mla-geometry"
