"""The real parsers on every command line of the sweep, and on command lines that are wrong.

vLLM and SGLang need virtual environments, named by UPRIGHT_TEST_VLLM and UPRIGHT_TEST_SGLANG (scripts/get-vllm,
scripts/get-sglang); they are asked once, since importing them takes half a minute.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import recipes
from tests.golden.deployments import recipe
from upright.engines import engine_named
from upright.facts.catalog.recorded_flags import recorded_flags
from upright.facts.records.recipe import Recipe, Setting
from upright.serving.check import check, payload

PARSER = Path(payload.__file__).with_name("parser.py")
NEWEST = {"vllm": "0.32.0", "sglang": "0.5.23"}
LEADS = {"vllm": 1, "sglang": 2}
DEFAULT_SERVER = Path(".cache/llama.cpp/llama-server")


def interpreter(engine: str) -> str:
    named = os.environ.get(f"UPRIGHT_TEST_{engine.upper()}")
    if not named:
        pytest.skip(f"UPRIGHT_TEST_{engine.upper()} names no virtual environment")
    return str(Path(named) / "bin" / "python")


def judged(engine: str, lines: list[list[list[str]]]) -> list[list[tuple[list[str], str]]]:
    done = subprocess.run(
        [interpreter(engine), str(PARSER), str(engine_named(engine).proof.parser.payload)],
        input=json.dumps(lines),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def settings(words: tuple[str, ...], engine: str) -> list[list[str]]:
    """The words of a command line, without its lead, in groups."""
    rest = list(words[LEADS[engine] :])
    found: list[list[str]] = [[rest.pop(0)]] if engine == "vllm" else []
    for word in rest:
        if word.startswith("--"):
            found.append([word])
        else:
            found[-1].append(word)
    return [group for group in found if group[0] != "--config"]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("engine", "wrong"),
    [
        (
            "vllm",
            [
                (["--no-such-flag", "1"], "--no-such-flag"),
                (["--kv-cache-dtype", "fp5"], "fp5"),
                (["--compilation-config", '{"pass_config":{"fuse_nothing":true}}'], "fuse_nothing"),
                (["--reasoning-parser", "nope"], "nope"),
                (["--attention-backend", "NOPE"], "NOPE"),
            ],
        ),
        (
            "sglang",
            [
                (["--no-such-flag", "1"], "--no-such-flag"),
                (["--quantization", "nvfp4"], "nvfp4"),
                (["--cuda-graph-max-bs", "8"], "--cuda-graph-max-bs"),
                (["--tool-call-parser", "nope"], "nope"),
            ],
        ),
    ],
)
def test_the_real_parser_accepts_the_sweep_and_names_what_is_wrong(engine: str, wrong):
    sweep = sorted(recipes.command_lines(engine, NEWEST[engine], few=False))
    lines = [settings(words, engine) for words in sweep]
    good = lines[0]
    broken = [[group for group in good if group[0] != extra[0]] + [extra] for extra, _ in wrong]
    verdicts = judged(engine, lines + broken)
    refused = {message for found in verdicts[: len(lines)] for _, message in found}
    assert not refused
    assert len(lines) > 50
    for (extra, named), found in zip(wrong, verdicts[len(lines) :], strict=True):
        assert len(found) == 1, (extra, found)
        assert found[0][0] == extra
        assert named in found[0][1]


@pytest.fixture(scope="module")
def server() -> str:
    named = Path(os.environ.get("UPRIGHT_LLAMA_SERVER", DEFAULT_SERVER))
    if not named.exists():
        pytest.skip("no llama-server")
    return str(named.resolve())


@pytest.mark.engine
def test_the_real_llama_server_accepts_the_sweep(server: str):
    lines = recipes.command_lines("llama.cpp", "b11669")
    assert len(lines) > 3
    for words in sorted(lines):
        found = check(_recipe("llama.cpp", words), program=server)
        assert found.verdict == "accepted", found.refusals


@pytest.mark.engine
def test_the_real_llama_server_names_what_is_wrong(server: str):
    made = _recipe("llama.cpp", ("--model", "x.gguf", "-fmoe", "--cache-type-k", "q99", "--jinja"))
    found = check(made, program=server)
    assert found.verdict == "refused"
    assert {each.setting for each in found.refusals} == {"-fmoe", "--cache-type-k q99"}


def _recipe(engine: str, words: tuple[str, ...]) -> Recipe:
    groups: list[list[str]] = []
    for word in words:
        if word.startswith("-") and not word.lstrip("-")[:1].isdigit():
            groups.append([word])
        else:
            groups[-1].append(word)
    arguments = tuple(
        Setting(name=group[0], value=group[1] if len(group) > 1 else None, reason="a test") for group in groups
    )
    return recipe("kimi-k26-ik-llama").model_copy(update={"engine": engine, "arguments": arguments})


@pytest.mark.engine
def test_the_recorded_flags_are_those_of_its_own_help(llama_server: Path) -> None:
    """Not what its prose mentions, and not what it lists only to refuse."""
    about = subprocess.run([llama_server, "--version"], capture_output=True, text=True, check=True)
    build = re.search(r"build (\d+)", about.stdout + about.stderr)
    assert build is not None
    recorded = recorded_flags("llama.cpp", f"b{build[1]}")
    assert recorded is not None
    told = subprocess.run([llama_server, "--help"], capture_output=True, text=True, check=True)
    words = [sys.executable, "scripts/extract-flags", "--print", "--help-text", f"llama.cpp-b{build[1]}"]
    found = subprocess.run(words, input=told.stdout, capture_output=True, text=True, check=True)
    assert set(found.stdout.split()) == recorded.flags
    refused = subprocess.run([llama_server, "--draft-max", "4", "--version"], capture_output=True, check=False)
    assert refused.returncode != 0
    assert "--draft-max" not in recorded
