"""Code of a model: it runs inside the engine, where `--trust-remote-code` was wanted, with what the engine was given.

It may read its environment and that of the process which keeps it. Neither holds a key of the person's.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import get_args

import pytest

from tests.golden.deployments import recipe
from tests.ports import free_port
from upright.base.errors import LaunchError
from upright.base.host import environment_script, passed_environment
from upright.base.host.environment import Recipient, passed_variables
from upright.facts import store
from upright.facts.records.recipe import Recipe
from upright.planning.rendering.recipe import with_variables_passed
from upright.planning.rendering.targets import TARGETS
from upright.serving.launch import launch
from upright.serving.launch.places import LocalPlace, SshPlace
from upright.serving.launch.runtimes import RUNTIMES, Command, DeploymentPaths

NOT_PROMISED = (
    "that code which runs as you cannot read what you can read: your files, the environment of your other processes; "
    "`--runtime podman` or `docker` is the wall against that",
    "that a script which `render` wrote hands on less than the shell has that it is started in",
)
SECRETS = {
    name: f"planted-{name.lower()}"
    for name in (
        "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "GOOGLE_APPLICATION_CREDENTIALS", "AZURE_CLIENT_SECRET",
        "GITHUB_TOKEN", "GH_TOKEN", "DATABASE_URL", "PGPASSWORD", "KUBECONFIG", "WANDB_API_KEY", "VLLM_API_KEY",
        "VLLM_S3_ACCESS_KEY_ID", "VLLM_SECRET_THING", "SGLANG_API_KEY", "LLAMA_API_KEY", "LLAMA_ARG_API_KEY",
        "NCCL_TOKEN", "CUDA_PASSWORD", "S3_ENDPOINT_URL", "SLACK_WEBHOOK", "NPM_CONFIG__AUTH", "SOME_COMPANY_VARIABLE",
    )
}  # fmt: skip
NEEDED = {
    "CUDA_VISIBLE_DEVICES": "0", "NCCL_DEBUG": "WARN", "OMP_NUM_THREADS": "4", "VLLM_LOGGING_LEVEL": "INFO",
    "HF_HOME": "/hub", "LD_LIBRARY_PATH": "/cuda", "LLAMA_ARG_THREADS": "1", "TOKENIZERS_PARALLELISM": "false",
    "LC_ALL": "C.UTF-8",
}  # fmt: skip
TELLER = """import json, os
file = os.environ["TOLD"]
json.dump(dict(os.environ), open(file + ".new", "w"))
os.rename(file + ".new", file)"""


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in {**SECRETS, **NEEDED, "UPRIGHT_HOME": str(tmp_path / "home")}.items():
        monkeypatch.setenv(name, value)


def told(file: Path) -> dict[str, str]:
    deadline = time.monotonic() + 20
    while not file.exists():
        assert time.monotonic() < deadline, "the engine was not started"
        time.sleep(0.02)
    return dict(json.loads(file.read_text()))


def command(file: Path, *passed: str) -> Command:
    return Command((sys.executable, "-c", TELLER), environment={"TOLD": str(file), "OURS": "1"}, passed=passed)


@pytest.mark.promise(
    "an engine's environment holds no key, token or password of the person's, on this machine and over ssh"
)
def test_an_engine_here_is_given_what_it_needs(tmp_path: Path):
    place = LocalPlace(store.create("code"))
    place.start(command(tmp_path / "told"))
    given = told(tmp_path / "told")
    place.end(None)
    assert not SECRETS.keys() & given.keys()
    assert {**NEEDED, "OURS": "1"}.items() <= given.items()
    assert given["PATH"] == os.environ["PATH"]


@pytest.mark.engine
@pytest.mark.promise(
    "an engine's environment holds no key, token or password of the person's, on this machine and over ssh"
)
def test_an_engine_over_ssh_is_given_what_it_needs(
    ssh_command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("UPRIGHT_SSH_COMMAND", " ".join(ssh_command))
    place = SshPlace(store.create("code"), "box")
    try:
        place.start(command(tmp_path / "told"))
        given = told(tmp_path / "told")
    finally:
        place.end(None)
        place.close()
        shutil.rmtree(Path.home() / place.folder, ignore_errors=True)
    assert "UPRIGHT_LLAMA_SERVER" not in given, "sshd sets it, and it is not on the list"
    assert not SECRETS.keys() & given.keys()
    assert {"OURS", "PATH", "HOME"} <= given.keys()


@pytest.mark.promise(
    "an engine's environment holds no key, token or password of the person's, on this machine and over ssh"
)
@pytest.mark.parametrize("shell", ["dash", "bash", "busybox"])
@pytest.mark.parametrize("to", get_args(Recipient))
def test_shells_of_other_machines_choose_as_this_one_does(shell: str, to: Recipient):
    planted = {**SECRETS, **NEEDED, "PATH": os.environ["PATH"], "HOME": "/root", "ODD": "two\nGITHUB_TOKEN=lines"}
    argv = ["busybox", "sh"] if shell == "busybox" else [shell]
    script = f"{environment_script(to, named=('DATABASE_URL',))}\nenv -0\n"
    done = subprocess.run(argv, input=script, env=planted, capture_output=True, text=True, timeout=30)
    assert done.stderr == ""
    kept = dict(line.partition("=")[::2] for line in done.stdout.split("\0") if line)
    ours = {name: value for name, value in kept.items() if name in planted}
    assert ours == passed_environment(planted, to, named=("DATABASE_URL",))
    assert ours["DATABASE_URL"] == SECRETS["DATABASE_URL"]
    assert not (SECRETS.keys() - {"DATABASE_URL"}) & kept.keys()


@pytest.mark.promise(
    "the process that keeps an engine has no key of the person's either, since its engine could read it"
)
def test_the_supervisor_has_no_secret(tmp_path: Path):
    engine = tmp_path / "llama-server"
    engine.write_text(f"#!/bin/sh\ncat /proc/$PPID/environ >{tmp_path}/parent\nenv -0 >{tmp_path}/own\nexit 3\n")
    engine.chmod(0o755)
    wanted = recipe("kimi-k26-ik-llama").model_copy(update={"program": str(engine), "port": free_port()})
    with pytest.raises(LaunchError, match="did not come up"):
        launch(wanted, store.create("code"))
    for name in ("parent", "own"):
        held = (tmp_path / name).read_text()
        assert f"PATH={os.environ['PATH']}" in held
        assert "planted-" not in held, name


@pytest.mark.promise("a container is given what its recipe names, and nothing of the person's environment")
@pytest.mark.parametrize("runtime", ["podman", "docker"])
def test_a_container_is_given_what_its_recipe_names(runtime: str):
    site = DeploymentPaths(key_file="/home/me/key", key_config="/home/me/key.yaml", home="/home/me", user="1000:1000")
    wanted = recipe("kimi-k26-community-docker")
    started = RUNTIMES[runtime].command(with_variables_passed(wanted, ["HF_TOKEN"]), site, container="c", label="l")
    assert started.to == "client"
    assert not any("planted-" in word for word in started.argv)
    variables = [word for before, word in zip(started.argv, started.argv[1:], strict=False) if before == "--env"]
    assert "HF_TOKEN" in variables, "by its name alone: the value stands in no listing"
    assert runtime == "docker" or "--http-proxy=false" in started.argv
    client = passed_environment(os.environ, "client", named=started.passed)
    assert SECRETS.keys() & client.keys() == {"HF_TOKEN"}


@pytest.mark.promise(
    "a variable that the person names (`--env NAME`) is handed on; its value is in no record, file or listing"
)
def test_a_variable_that_was_asked_for(tmp_path: Path):
    place = LocalPlace(store.create("code"))
    place.start(command(tmp_path / "told", "HF_TOKEN"))
    given = told(tmp_path / "told")
    place.end(None)
    assert SECRETS.keys() & given.keys() == {"HF_TOKEN"}
    wanted: Recipe = with_variables_passed(recipe("kimi-k26-community-docker"), ["HF_TOKEN"])
    assert wanted.passed == ("HF_TOKEN",)
    assert "planted-" not in wanted.to_json()
    for name, target in TARGETS.items():
        text = target.write(wanted)
        assert "planted-" not in text
        assert "HF_TOKEN" in text, name
        assert "{environment}" not in text


@pytest.mark.promise(
    "a variable that the person names (`--env NAME`) is handed on; its value is in no record, file or listing"
)
def test_a_variable_that_is_not_there_is_said_before_anything_starts(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("HF_TOKEN")
    wanted = with_variables_passed(recipe("kimi-k26-ik-llama"), ["HF_TOKEN"]).model_copy(update={"port": free_port()})
    with pytest.raises(LaunchError, match="HF_TOKEN is to be handed on to the engine, and is not set here"):
        launch(wanted, store.create("code"))


@pytest.mark.promise(
    "an engine's environment holds no key, token or password of the person's, on this machine and over ssh"
)
def test_every_row_says_why():
    for row in passed_variables():
        assert row.why
        assert row.source.startswith("https://")
        assert set(row.to) <= set(get_args(Recipient))
    for to in get_args(Recipient):
        assert not SECRETS.keys() & passed_environment(SECRETS, to).keys()
