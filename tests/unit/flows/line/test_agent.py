"""`launch`: the flow behind it with a scripted client, and each way in which it can end early."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

from tests.unit.serving.connect.test_connect import deployment
from tests.unit.serving.connect.test_trying import Endpoints, serving
from upright.app.pages.client_page import download_words, session_json, session_sentences
from upright.base.errors import LaunchError, UsageError
from upright.facts import catalog
from upright.facts.records.box import EngineInstall
from upright.facts.records.plan import Goal
from upright.flows.line import agent
from upright.flows.line.agent import AgentSession, ClientOptions, launch_agent, recommended_model
from upright.flows.line.preparing import LaunchTarget
from upright.serving.connect.client_process import client_named

KEEPS_NOTES = 'printf "%s\\n" "$@" > "$NOTES/arguments"; env > "$NOTES/environment"\n'


class Flow:
    """What `run` and the launcher would have made, and what was asked of them."""

    def __init__(self, address: str, context_tokens: int, folder: Path) -> None:
        self.deployment = deployment(context_tokens).model_copy(update={"base_url": address})
        self.key_file = folder / "key"
        self.key_file.write_text("sk-secret")
        self.stands, self.failure = True, None
        self.asked: list[str] = []
        self.stopped = 0

    def run(self, source: str, *_: Any, to: str, keep: bool, **__: Any) -> Any:
        self.asked.append(f"{source} to {to}")
        assert keep, "the engine must outlive its proof"
        if self.failure is not None:
            raise self.failure
        return SimpleNamespace(deployment=self.deployment, stands=self.stands, evidence=None)

    def stop(self, directory: Any) -> None:
        self.stopped += 1

    def find(self, name: str) -> Any:
        return SimpleNamespace(key_file=self.key_file, key=lambda: "sk-secret", read=lambda kind: self.deployment)

    def launch(self, client: str, *arguments: str, keep: bool = False, write: bool = False) -> AgentSession:
        wish = ClientOptions(client_named(client), arguments, write)
        return launch_agent(
            "model",
            Goal(),
            LaunchTarget(),
            wish,
            port=1,
            keep=keep,
            tell=self.asked.append,
            weights=SimpleNamespace(),  # type: ignore[arg-type]
        )


@pytest.fixture
def engine() -> Endpoints:
    return Endpoints(65_536)


@pytest.fixture
def flow(engine: Endpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Flow]:
    (tmp_path / "bin").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("NOTES", str(tmp_path))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a key of the person's own")
    with serving(engine) as address:
        made = Flow(address, engine.context_tokens, tmp_path)
        monkeypatch.setattr(agent, "run", made.run)
        monkeypatch.setattr(agent, "stop", made.stop)
        monkeypatch.setattr(agent, "store", SimpleNamespace(find=made.find))
        yield made


def install(folder: Path, program: str, script: str = KEEPS_NOTES) -> None:
    file = folder / "bin" / program
    file.write_text(f"#!/bin/sh\n{script}")
    file.chmod(0o755)


def noted(folder: Path) -> tuple[list[str], dict[str, str]]:
    lines = (folder / "environment").read_text().splitlines()
    return (folder / "arguments").read_text().split("\n")[:-1], dict(
        line.split("=", 1) for line in lines if "=" in line
    )


def test_the_client_is_started_with_settings_of_its_own_process_and_nothing_is_left(flow: Flow, tmp_path: Path) -> None:
    install(tmp_path, "claude", KEEPS_NOTES + "exit 3\n")
    session = flow.launch("claude", "-p", "two words")
    assert session.exit_code == 3
    arguments, environment = noted(tmp_path)
    assert arguments[0] == "--settings", "a repository's own settings are not laid over ours"
    assert arguments[2:] == ["-p", "two words"]
    assert f'"ANTHROPIC_BASE_URL":"{flow.deployment.base_url}"' in arguments[1]
    assert "sk-secret" not in arguments[1]
    assert environment["ANTHROPIC_BASE_URL"] == flow.deployment.base_url
    assert environment["ANTHROPIC_AUTH_TOKEN"] == "sk-secret"
    assert "ANTHROPIC_API_KEY" not in environment, "it would win over the token"
    assert flow.asked[0] == "model to tools"
    assert flow.stopped == 1
    assert not list((tmp_path / "work").iterdir()), "nothing is written"
    assert list(session_sentences(session, "claude-code")) == ["claude-code ended with code 3"]
    assert session_json(session, "claude-code")["exit_code"] == 3


@pytest.mark.parametrize(("program", "told"), [("codex", "model_provider=upright"), ("aider", "openai/Kimi-K2.6")])
def test_other_clients_get_arguments_of_theirs(flow: Flow, tmp_path: Path, program: str, told: str) -> None:
    install(tmp_path, program)
    assert flow.launch(program, "hello").exit_code == 0
    arguments, environment = noted(tmp_path)
    assert told in arguments
    assert arguments[-1] == "hello"
    assert "sk-secret" in environment.values()
    assert "sk-secret" not in " ".join(arguments)


def test_opencode_gets_its_configuration_in_a_variable(flow: Flow, tmp_path: Path) -> None:
    install(tmp_path, "opencode")
    assert flow.launch("opencode").exit_code == 0
    told = json.loads(noted(tmp_path)[1]["OPENCODE_CONFIG_CONTENT"])
    assert told["provider"]["upright"]["options"]["baseURL"] == f"{flow.deployment.base_url}/v1"
    assert told["model"] == "upright/Kimi-K2.6"


def test_it_is_left_running_if_that_was_asked(flow: Flow, tmp_path: Path) -> None:
    install(tmp_path, "claude")
    assert flow.launch("claude", keep=True).exit_code == 0
    assert flow.stopped == 0


def test_settings_are_written_only_for_an_engine_that_stays(flow: Flow, tmp_path: Path) -> None:
    install(tmp_path, "claude")
    with pytest.raises(UsageError, match="settings of an engine that is stopped") as refused:
        flow.launch("claude", write=True)
    assert "--keep" in str(refused.value.hint)
    assert flow.asked == []
    assert flow.launch("claude", write=True, keep=True).exit_code == 0
    assert (tmp_path / "work/.claude/settings.local.json").exists()


def test_where_the_ordinary_prompt_does_not_fit_the_smaller_one_is_taken(
    engine: Endpoints, flow: Flow, tmp_path: Path
) -> None:
    engine.context_tokens = 8_192
    flow.deployment = flow.deployment.model_copy(update={"context_tokens": 8_192})
    install(tmp_path, "claude")
    session = flow.launch("claude", "-p", "hello")
    assert session.exit_code == 0
    assert noted(tmp_path)[0][2:] == ["--bare", "-p", "hello"]
    assert any("started with --bare, since otherwise its first prompt" in sentence for sentence in flow.asked)


def test_a_client_that_is_not_installed_is_said_before_anything_is_fetched(flow: Flow) -> None:
    with pytest.raises(UsageError, match="there is no command claude") as refused:
        flow.launch("claude")
    assert "npm install -g @anthropic-ai/claude-code" in str(refused.value.hint)
    assert flow.asked == []
    with pytest.raises(UsageError, match="emacs is no client"):
        flow.launch("emacs")
    with pytest.raises(UsageError, match="zed is no client"):
        flow.launch("zed")
    with pytest.raises(UsageError, match="llm is no client"):
        flow.launch("llm")


@pytest.mark.parametrize("failure", [click.Abort(), LaunchError("the hub is gone"), KeyboardInterrupt()])
def test_declined_or_not_fetched_no_client_is_started(flow: Flow, tmp_path: Path, failure: Any) -> None:
    install(tmp_path, "claude")
    flow.failure = failure
    with pytest.raises(type(failure)):
        flow.launch("claude")
    assert not (tmp_path / "arguments").exists()


def test_what_was_not_proved_gets_no_client(flow: Flow, tmp_path: Path) -> None:
    install(tmp_path, "claude")
    flow.stands = False
    session = flow.launch("claude")
    assert (session.trial, session.exit_code, flow.stopped) == (None, None, 1)
    assert "did not pass what was proved" in next(session_sentences(session, "claude-code"))
    assert not (tmp_path / "arguments").exists()


def test_an_engine_that_refuses_tools_gets_no_client(engine: Endpoints, flow: Flow, tmp_path: Path) -> None:
    engine.parser = False
    install(tmp_path, "claude")
    session = flow.launch("claude")
    assert (session.exit_code, flow.stopped) == (None, 1)
    assert "HTTP 400" in "\n".join(session_sentences(session, "claude-code"))
    assert not (tmp_path / "arguments").exists()


def test_a_terminal_that_is_gone_stops_the_engine_though_nobody_can_be_told(flow: Flow, tmp_path: Path) -> None:
    install(tmp_path, "claude")

    def tell(sentence: str) -> None:
        if sentence == "stopping":
            raise OSError(5, "Input/output error")

    flow.asked = SimpleNamespace(append=tell)  # type: ignore[assignment]
    assert flow.launch("claude").exit_code == 0
    assert flow.stopped == 1


def test_a_second_signal_does_not_keep_the_engine_from_being_stopped(
    flow: Flow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "claude")

    def stop(directory: Any) -> None:
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            os.kill(os.getpid(), number)
        flow.stopped += 1

    monkeypatch.setattr(agent, "stop", stop)
    assert flow.launch("claude").exit_code == 0
    assert flow.stopped == 1


def test_what_would_send_the_client_elsewhere_is_left_out(
    flow: Flow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "https://elsewhere.example/v1")
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", "intranet")
    install(tmp_path, "aider")
    assert flow.launch("aider", "hello").exit_code == 0
    environment = noted(tmp_path)[1]
    assert not [text for text in environment.values() if "elsewhere.example" in text]
    assert environment["NO_PROXY"] == "intranet,127.0.0.1"
    assert environment["no_proxy"].endswith("127.0.0.1")


def test_goose_is_told_what_the_person_says_and_else_begins_a_session(flow: Flow, tmp_path: Path) -> None:
    install(tmp_path, "goose")
    assert flow.launch("goose", "run", "-t", "hi").exit_code == 0
    assert noted(tmp_path)[0] == ["run", "-t", "hi"]
    assert flow.launch("goose").exit_code == 0
    assert noted(tmp_path)[0] == ["session"]


def test_ctrl_c_is_the_clients_and_the_engine_is_stopped_when_it_ends(flow: Flow, tmp_path: Path) -> None:
    install(tmp_path, "claude", "kill -INT $PPID\nexit 130\n")
    assert flow.launch("claude").exit_code == 130
    assert flow.stopped == 1


def test_a_terminal_that_is_closed_leaves_nothing_running(flow: Flow, tmp_path: Path) -> None:
    install(tmp_path, "claude", "kill -HUP $PPID\nexec sleep 600\n")
    with pytest.raises(KeyboardInterrupt):
        flow.launch("claude")
    assert flow.stopped == 1


def test_without_a_model_the_first_that_is_recommended_and_can_be_run_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    bare = catalog.box_record("8x-rtx-pro-6000-server")
    box = bare.model_copy(update={"engines": (EngineInstall(engine="vllm", version="0.32.0", program="vllm"),)})
    monkeypatch.setattr(agent, "box_named", lambda named: box)
    source = recommended_model(Goal(), LaunchTarget(), tell=told.append)
    assert f"recommended: {source} " in told[0]
    assert "on vllm" in told[0]
    monkeypatch.setattr(agent, "box_named", lambda named: bare)
    with pytest.raises(UsageError, match="not installed here") as refused:
        recommended_model(Goal(), LaunchTarget(), tell=told.append)
    assert "upright tools engine how" in str(refused.value.hint)
    monkeypatch.setattr(agent, "recommend", lambda *_, **__: SimpleNamespace(offers=(), why="too small"))
    with pytest.raises(UsageError, match="too small"):
        recommended_model(Goal(), LaunchTarget(), tell=told.append)


def test_a_download_is_told_by_bytes_disk_and_time() -> None:
    need = SimpleNamespace(
        missing_bytes=600 * 10**9, source="a/b", room=SimpleNamespace(folder="/models", free_bytes=10**12)
    )
    words = download_words(need)  # type: ignore[arg-type]
    assert "600 GB of a/b" in words
    assert "1.00 TB free there" in words
    assert "1 Gbit/s" in words
