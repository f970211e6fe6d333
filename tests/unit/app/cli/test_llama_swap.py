"""`render MODEL MODEL --to llama-swap`: one file, by its published schema, that swaps what does not fit at once."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest
import yaml

WORDS = ("--box", "1x-rtx-5090", "--context", "32k")
SMALL, MIDDLE = "gpt-oss-20b", "gemma-4-26b-a4b"
# config-schema.json of llama-swap v250 (https://github.com/mostlygeek/llama-swap): what is required, and the forms
MODEL_KEYS = {"cmd", "cmdStop", "name", "env", "proxy", "aliases", "checkEndpoint", "ttl", "concurrencyLimit"}
TOP_KEYS = {"healthCheckTimeout", "models", "matrix", "startPort", "apiKeys"}
ENVIRONMENT, ENDPOINT, VARIABLE = r"[A-Z_][A-Z0-9_]*=.*", r"/.*|none", r"[a-zA-Z0-9]{1,8}"


def written(text: str) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load(text)
    assert config.keys() <= TOP_KEYS
    assert config["healthCheckTimeout"] >= 15
    for model in config["models"].values():
        assert model["cmd"]
        assert model.keys() <= MODEL_KEYS
        assert re.fullmatch(ENDPOINT, model["checkEndpoint"])
        assert all(re.fullmatch(ENVIRONMENT, line) for line in model.get("env", ()))
    if matrix := config.get("matrix"):
        assert matrix.keys() == {"vars", "sets"}
        assert set(matrix["vars"].values()) == set(config["models"])
        assert all(re.fullmatch(VARIABLE, name) for name in matrix["vars"])
        assert {word for named in matrix["sets"].values() for word in named.split(" & ")} <= matrix["vars"].keys()
    return config


def command(model: dict[str, Any]) -> list[str]:
    """As llama-swap cuts it: without comments, by the shell's rules."""
    return shlex.split("\n".join(line for line in model["cmd"].splitlines() if not line.startswith("#")))


def test_each_model_is_started_by_its_own_recipe(upright):
    config = written(upright("render", SMALL, MIDDLE, *WORDS, "--to", "llama-swap").stdout)
    for name, model in zip((SMALL, MIDDLE), config["models"].values(), strict=True):
        recipe = json.loads(upright("render", name, *WORDS, "--json").stdout)
        keyless = [each for each in recipe["arguments"] if each["value"] != "{key_file}"]
        words = [word for each in keyless for word in (each["name"], each["value"]) if word is not None]
        words[words.index("--port") + 1] = "${PORT}"
        assert command(model) == [recipe["program"], *words]
        assert all(f"# {each['reason']}" in model["cmd"] for each in keyless)


@pytest.mark.parametrize(("box", "models", "fits"), [
    ("1x-rtx-5090", (SMALL, MIDDLE), []),  # 13.5 and 19 GiB at most of 30.2
    ("1x-rtx-pro-6000-server", (SMALL, MIDDLE), ["m1 & m2"]),
    # 94 GiB hold each two of 13.5, 19 and 63, and not all three
    ("1x-rtx-pro-6000-server", (SMALL, MIDDLE, "gpt-oss-120b"), ["m1 & m2", "m1 & m3", "m2 & m3"]),
])  # fmt: skip
def test_what_fits_at_once_is_named(upright, box: str, models: tuple[str, ...], fits: list[str]):
    words = (*models, "--box", box, "--context", "32k", "--engine", "llama.cpp", "--to", "llama-swap")
    text = upright("render", *words).stdout
    assert list(written(text).get("matrix", {"sets": {}})["sets"].values()) == fits
    answer = json.loads(upright("render", *words, "--json").stdout)
    assert len(answer["recipes"]) == len(models)
    assert len(answer["together"]) == len(fits)


def test_several_models_are_for_it_alone(upright):
    done = upright("render", SMALL, MIDDLE, *WORDS)
    assert done.returncode == 2
    assert "--to llama-swap" in done.stderr
    twice = upright("render", SMALL, SMALL, *WORDS, "--to", "llama-swap")
    assert twice.returncode == 2
    assert "two models are served as" in twice.stderr


def test_a_word_that_llama_swap_would_expand_is_refused(upright):
    done = upright("render", SMALL, *WORDS, "--to", "llama-swap", "--served-name", "a${env.HOME}")
    assert done.returncode == 2
    assert "${" in done.stderr


def test_it_is_written_into_the_folder_that_is_named(upright, tmp_path):
    done = upright("render", SMALL, *WORDS, "--to", "llama-swap", "-o", tmp_path / "files")
    assert done.returncode == 0, done.stderr
    assert SMALL in (tmp_path / "files/llama-swap.yaml").read_text()
