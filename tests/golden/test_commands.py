"""What docker and podman are told to run, word for word.

No docker engine runs in CI: its words are held here, and they take the same path as podman's, which runs for real.
"""

from __future__ import annotations

import pytest

from tests.golden.deployments import recipe
from tests.golden.layout import CONTAINERS as NAMES
from upright.facts.records.recipe import Recipe
from upright.planning.rendering.run_script import run_script
from upright.serving.launch.runtimes import RUNTIMES, Command, DeploymentPaths

SITE = DeploymentPaths(
    key_file="/home/me/upright/key", key_config="/home/me/upright/key.yaml", home="/home/me", user="1000:1000"
)


def words(recipe: Recipe, runtime: str) -> Command:
    """Held word for word by test_layout.py."""
    return RUNTIMES[runtime].command(recipe, SITE, container="upright-x-1", label="upright.deployment=x")


@pytest.mark.parametrize("runtime", ["docker", "podman"])
@pytest.mark.parametrize("name", NAMES)
def test_the_key_is_in_no_word(name: str, runtime: str):
    command = words(recipe(name), runtime)
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
