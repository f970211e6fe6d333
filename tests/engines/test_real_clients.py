"""Real clients from npm and PyPI on a real llama-server with the tiny model: what `connect` said of each is what came,
and the table in docs/clients.md says both."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT, Upright
from tests.ports import free_port
from tests.programs import made_by
from upright.facts.records.deployment import Deployment
from upright.facts.store import DeploymentDir
from upright.serving.connect import ClientSettings, connect, try_settings

pytestmark = [
    pytest.mark.engine,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(shutil.which("npm") is None, reason="the clients come from npm"),
]
CONTEXT = "8704"
"""What the tiny model was made for."""
CAPITAL = "What is the capital of France?"
WEATHER = 'def get_weather(city: str) -> str:\n    "Get the weather of a city."\n    return "21"\n'
TOO_LONG = re.compile(r"Prompt is too long|exceeds the available context size|maximum context length is \d+ tokens")
"""As Claude Code, llama.cpp and vLLM say it."""
COMMANDS = {
    "claude-code": ("claude", "-p", CAPITAL),
    "claude-code --bare": ("claude", "--bare", "-p", CAPITAL),
    "codex": ("codex", "exec", "--skip-git-repo-check", "-s", "read-only", "{arguments}", CAPITAL),
    "opencode": ("opencode", "run", CAPITAL),
    "aider": (
        "aider", "{arguments}", "--yes-always", "--no-check-update", "--analytics-disable", "--no-git",
        "--map-tokens", "0", "--message", CAPITAL, "add.py",
    ),
    "llm": ("llm", "-m", "upright", "--td", "--functions", WEATHER, "What is the weather in Paris?"),
}  # fmt: skip
ANSWERS = {"claude-code --bare": "The capital of France is Paris.", "aider": "sent, [1-9][0-9]* received"}


@pytest.fixture
def deployed(upright: Upright, llama_server: Path, tiny_model: Path, tmp_path: Path) -> Iterator[DeploymentDir]:
    path = f"{llama_server.parent}:{os.environ['PATH']}"
    up = upright("up", tiny_model, "--context", CONTEXT, "--port", str(free_port()), PATH=path)
    assert up.returncode == 0, up.stderr
    yield DeploymentDir(next((tmp_path / "home/deployments").iterdir()))
    assert upright("down").returncode == 0


def environment(settings: ClientSettings, key: str, person: Path, clients: str) -> dict[str, str]:
    """Of a person who has nothing but this client; whatever would leave this machine ends at a closed port."""
    nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9")
    here = dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1")
    folders = {"HOME": str(person), "LLM_USER_PATH": str(person / "llm"), "PATH": f"{clients}:/usr/bin:/bin"}
    return {**nowhere, **here, **folders, **settings.environment, **dict.fromkeys(settings.key_variables, key)}


def shown(argv: list[str], variables: dict[str, str], folder: Path) -> str:
    """All that it printed; one that asks again and again after it was refused is ended."""
    with subprocess.Popen(
        argv, env=variables, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", start_new_session=True,
    ) as client:  # fmt: skip
        late = threading.Timer(600, os.killpg, (client.pid, signal.SIGKILL))
        late.start()
        lines = []
        try:
            assert client.stdout is not None
            for line in client.stdout:
                lines.append(line)
                if TOO_LONG.search(line):
                    break
        finally:
            late.cancel()
            if client.poll() is None:
                os.killpg(client.pid, signal.SIGKILL)
    return "".join(lines)


def outcome(client: str, text: str) -> str:
    if TOO_LONG.search(text):
        return "refused: its prompt is too long"
    if "Tool call: get_weather({'city': 'Paris'})" in text and "It is 21 degrees in Paris." in text:
        return "a tool call, and the answer from it"
    if re.search(ANSWERS.get(client, r"(?!)"), text):
        return "an answer"
    return f"something else: {text[-2000:]}"


def documented(heading: str) -> dict[str, tuple[str, str]]:
    """client -> what `connect` says and what came, by that section of the page."""
    page = (ROOT / "docs/clients.md").read_text()
    section = page.split(f"{heading}\n", 1)[1].split("\n##", 1)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return {row[0].replace("`", ""): (row[2], row[3]) for row in rows[2:]}


def asked_of_each(deployed: DeploymentDir, folder: Path) -> dict[str, tuple[str, str]]:
    """client -> what `connect` says and what came; the one follows from the other."""
    clients, person = made_by("get-clients"), folder / "person"
    (person / "llm").mkdir(parents=True)
    (folder / "work").mkdir()
    (folder / "work/add.py").write_text("def add(a, b):\n    return a - b\n")
    came: dict[str, tuple[str, str]] = {}
    for name, words in COMMANDS.items():
        client, _, variant = name.partition(" ")
        settings = connect(deployed.read(Deployment), deployed.key_file, client)
        trial = try_settings(settings, deployed.key(), variant=variant or None)
        if client == "llm":
            (person / "llm/extra-openai-models.yaml").write_text(settings.text.split("# then:")[0])
        argv = [part for word in words for part in (settings.arguments if word == "{arguments}" else (word,))]
        text = shown(argv, environment(settings, deployed.key(), person, clients), folder / "work")
        assert deployed.key() not in json.dumps(argv)
        came[name] = ("works" if trial.works else "will not work", outcome(name, text))
        print(name, *came[name])
        assert trial.works != came[name][1].startswith("refused"), (name, trial.why, text[-2000:])
    return came


def test_what_connect_says_of_real_clients_is_what_comes(deployed: DeploymentDir, tmp_path: Path) -> None:
    assert asked_of_each(deployed, tmp_path) == documented("## Real clients")
