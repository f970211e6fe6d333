"""What docker and podman are told to run, word for word.

No docker engine runs in CI: its words are held here, and they take the same path as podman's, which runs for real.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.golden.deployments import recipe
from upright.planning.rendering.run_script import run_script
from upright.serving.launch.runtimes import RUNTIMES, Site

GOLDEN = Path(__file__).parent / "commands"
SITE = Site(key_file="/home/me/upright/key", key_config="/home/me/upright/key.yaml", home="/home/me", user="1000:1000")
NAMES = ("kimi-k26-community-docker", "kimi-k26-sglang", "kimi-k2-thinking-nvfp4-sglang")


@pytest.mark.parametrize("runtime", ["docker", "podman"])
@pytest.mark.parametrize("name", NAMES)
def test_the_words(name: str, runtime: str):
    command = RUNTIMES[runtime].command(recipe(name), SITE, container="upright-x-1", label="upright.deployment=x")
    text = "\n".join(command.argv) + "\n"
    file = GOLDEN / f"{name}.{runtime}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(text)
    assert text == file.read_text()
    assert command.key_variable is None, "the key is a mounted file, not a variable that `inspect` would show"
    assert not any("{key" in word for word in command.argv)


@pytest.mark.parametrize("name", NAMES)
def test_the_script_and_the_command_say_the_same(name: str):
    """`render --to docker` and `up --runtime docker` are made from the same words."""
    script = run_script(recipe(name), "docker")
    command = RUNTIMES["docker"].command(recipe(name), SITE, container="c", label="l").argv
    for word in ("--cap-drop", "--read-only", "--security-opt", "--tmpfs", "--gpus", "--shm-size", "--init", "--rm"):
        assert word in command
        assert word in script


def test_what_is_asked_around_a_start():
    image = recipe(NAMES[0]).image
    for name in ("docker", "podman"):
        runtime = RUNTIMES[name]
        assert runtime.present(recipe(NAMES[0])) == (name, "image", "inspect", "--format", "{{.Id}}", image)
        assert runtime.pull(recipe(NAMES[0])).argv == (name, "pull", image)
    assert RUNTIMES["docker"].remove("c") == ("docker", "rm", "--force", "--volumes", "c")
    assert RUNTIMES["podman"].remove("c") == ("podman", "rm", "--force", "--ignore", "--time", "0", "--volumes", "c")
    assert RUNTIMES["process"].present(recipe(NAMES[0])) is None
