"""Targets write what was meant: the program, the home, who reaches the port, and no line of others' making."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.golden.deployments import PUBLISHED, recipe
from tests.programs import needs
from upright.base.errors import UsageError
from upright.facts import catalog
from upright.facts.catalog.model_records import records
from upright.facts.records.box import EngineInstall
from upright.facts.records.plan import Goal
from upright.facts.records.recipe import Recipe
from upright.planning.choosing import plan
from upright.planning.rendering import render
from upright.planning.rendering.container import container_of
from upright.planning.rendering.quoting import expand_home, shell_path, shell_word
from upright.planning.rendering.recipe import RenderOptions
from upright.planning.rendering.targets import TARGETS

EIGHT = "8x-rtx-pro-6000-server-dual-socket"


def made(engine: str, *, path: str | None = None, install: EngineInstall | None = None, **wishes: object) -> Recipe:
    box = catalog.box_record(EIGHT)
    if install is not None:
        box = box.model_copy(update={"engines": (install,)})
    model = next(each for each in records(catalog.model("Kimi-K2.6")) if each.name == "Kimi-K2.6")
    best = plan(box, model, Goal(engine=engine))[0]
    wanted = RenderOptions(must_be_installed=False, **wishes)  # type: ignore[arg-type]
    return render(best, model, box, model_path=path or model.source, port=8000, wishes=wanted)


@pytest.mark.parametrize(
    ("install", "program", "first"),
    [
        (EngineInstall(engine="sglang", version="0.5.23", program="/v/bin/sglang"), "sglang", "serve"),
        (
            EngineInstall(engine="sglang", version="0.5.23", program="/v/bin/python", module="sglang.launch_server"),
            "python3",
            "-m",
        ),
        (
            EngineInstall(
                engine="vllm", version="0.32.0", program="/v/bin/python", module="vllm.entrypoints.openai.api_server"
            ),
            "python3",
            "-m",
        ),
        (EngineInstall(engine="vllm", version="0.32.0", program="/v/bin/vllm"), "vllm", "serve"),
    ],
)
def test_the_container_runs_the_program_that_its_words_are_for(install: EngineInstall, program: str, first: str):
    inside = container_of(made(install.engine, install=install))
    assert inside.entrypoint[-1] == program
    assert inside.settings[0].name == first


def test_a_recipe_takes_as_many_gpus_as_the_plan_has_ranks():
    box = catalog.box_record(EIGHT)
    model = next(iter(records(catalog.model("gpt-oss-120b"))))
    best = plan(box, model, Goal(engine="vllm", tensor_parallel=2))[0]
    found = render(best, model, box, model_path="/m", port=1, wishes=RenderOptions(must_be_installed=False))
    assert (found.gpus, len(box.gpus)) == (2, 8)
    assert recipe("kimi-k26-ik-llama").gpus == 2


def test_only_a_target_that_publishes_on_loopback_says_so():
    asked = made("vllm")
    assert "published on loopback" in TARGETS["compose"].write(asked)
    assert "loopback" not in TARGETS["kubernetes"].write(asked)


def test_compose_asks_whose_key_it_is():
    text = TARGETS["compose"].write(made("vllm"))
    assert 'export ENGINE_USER="$(id -u):$(id -g)"' in text
    assert yaml.safe_load(text)["services"]["engine"]["user"].startswith("${ENGINE_USER:?")


@pytest.mark.parametrize(
    ("target", "line"),
    [
        ("shell", 'MODEL_PATH=${MODEL_PATH:-"$HOME"/my-models/kimi}'),
        ("docker", 'MODEL_FOLDER=${MODEL_FOLDER:-"$HOME"/my-models/kimi}'),
        ("compose", '"${HOME}/my-models/kimi:/model:ro"'),
        ("quadlet", "Volume=%h/my-models/kimi:/model:ro"),
    ],
)
def test_a_home_is_the_one_of_who_runs_it(target: str, line: str):
    assert line in TARGETS[target].write(made("vllm", path="~/my-models/kimi"))


@pytest.mark.parametrize("target", ["systemd", "kubernetes"])
def test_a_home_that_the_target_cannot_know_is_refused(target: str):
    with pytest.raises(UsageError, match="whose home"):
        TARGETS[target].write(made("vllm", path="~/kimi"))


@pytest.mark.parametrize("target", TARGETS)
def test_another_persons_home_is_refused_and_a_tilde_inside_a_path_is_none(target: str):
    with pytest.raises(UsageError, match="whose home"):
        TARGETS[target].write(made("vllm", path="~ada/kimi"))
    assert "/data/a~b" in TARGETS[target].write(made("vllm", path="/data/a~b"))


def test_paths_that_a_line_cannot_hold():
    with pytest.raises(UsageError, match="one line"):
        expand_home("/a\nb", "%h")


@pytest.mark.parametrize("word", ["plain", "it's", "a b", "nice\ntouch x #", "back\\slash\n'quote'\t$HOME `id`"])
def test_bash_reads_the_word_that_was_meant(word: str):
    script = f'X=${{X:-{shell_word(word)}}}; printf %s "$X"'
    assert subprocess.run(["bash", "-c", script], capture_output=True, text=True, env={}).stdout == word


def test_bash_finds_the_home():
    script = f'X=${{X:-{shell_path("~/my models/x")}}}; printf %s "$X"'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env={"HOME": "/home/a b"})
    assert done.stdout == "/home/a b/my models/x"


@pytest.mark.parametrize("target", TARGETS)
def test_a_name_with_a_line_in_it_is_refused(target: str):
    asked = made("vllm").model_copy(update={"served_name": "nice\ntouch x #"})
    with pytest.raises(UsageError, match=r"'nice\\u000atouch x #' cannot be a name: it holds a control character"):
        TARGETS[target].write(asked)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PUBLISHED)
def test_no_word_starts_a_line_of_its_own(name: str, target: str, tmp_path: Path):
    evil = "nice\ntouch x #"
    found = recipe(name)
    settings = tuple(
        each.model_copy(update={"value": evil, "reason": evil}) if each.value == found.served_name else each
        for each in found.arguments
    )
    changes = {
        "image": found.image or "me/engine:1",
        "image_about": evil,
        "notes": (evil,),
        "arguments": settings,
    }
    text = TARGETS[target].write(found.model_copy(update=changes))
    assert not [line for line in text.splitlines() if line.lstrip().startswith("touch")]
    if target == "systemd":
        needs("systemd-analyze")
        unit = tmp_path / "nice.service"
        unit.write_text(text)
        done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
        assert "nice.service:" not in done.stderr
