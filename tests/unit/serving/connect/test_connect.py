"""Settings in the words of each client, and what writing them leaves alone."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from upright.base.errors import UsageError
from upright.facts.records.deployment import Deployment
from upright.serving.connect import CLIENTS, connect, write_settings

KEY_FILE = Path("/home/a person/upright's/key")


def deployment(context_tokens: int = 65_536) -> Deployment:
    return Deployment(
        name="kimi",
        state="ready",
        engine="vllm",
        engine_version="0.32.0",
        served_name="Kimi-K2.6",
        base_url="http://127.0.0.1:8000",
        context_tokens=context_tokens,
        created_at="2026-01-01T00:00:00Z",
        changed_at="2026-01-01T00:00:00Z",
    )


@pytest.mark.parametrize("client", CLIENTS)
def test_every_client_is_told_address_model_and_where_the_key_is(client: str) -> None:
    told = connect(deployment(), KEY_FILE, client)
    assert told.base_url == "http://127.0.0.1:8000" + ("" if told.protocol == "anthropic" else "/v1")
    assert told.base_url.removesuffix("/v1") in told.text
    assert told.model == "Kimi-K2.6"
    assert told.model in told.text
    assert told.output_tokens == 16_384
    quoted = shlex.quote(str(KEY_FILE))
    assert quoted in told.text or str(KEY_FILE) in told.text


@pytest.mark.parametrize("client", [name for name in CLIENTS if name not in ("zed", "cline", "llm", "curl")])
def test_the_printed_lines_are_shell_and_read_the_key(client: str, tmp_path: Path) -> None:
    key_file = tmp_path / "a person's key"
    key_file.write_text("sk-secret\n")
    told = connect(deployment(), key_file, client)
    lines = [line for line in told.text.splitlines() if line.startswith("export")]
    done = subprocess.run(
        ["bash", "-c", "\n".join([*lines, "env"])], capture_output=True, text=True, check=True, env={"PATH": "/bin"}
    )
    environment = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    assert {name: environment[name] for name in told.environment} == told.environment
    assert {environment[name] for name in told.key_variables} == {"sk-secret"}


@pytest.mark.parametrize("client", CLIENTS)
def test_no_command_has_the_key_among_its_arguments(client: str) -> None:
    """Those can be read in the list of processes; export and printf are the shell's own."""
    told = connect(deployment(), KEY_FILE, client)
    reading = [line for line in told.text.splitlines() if "$(cat" in line]
    assert all(line.startswith(("export ", "printf ")) for line in reading), reading


def test_llm_takes_the_key_from_its_variable(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-secret\n")
    (tmp_path / "llm").write_text('#!/bin/sh\necho "$OPENAI_API_KEY"; echo "$@"\n')
    (tmp_path / "llm").chmod(0o755)
    told = connect(deployment(), tmp_path / "key", "llm")
    row, command = told.text.split("# then:\n")
    (model,) = yaml.safe_load(row)
    assert model["api_key_name"] == model["model_id"] == "upright", "without it llm sends no key"
    assert (model["model_name"], model["api_base"]) == ("Kimi-K2.6", "http://127.0.0.1:8000/v1")
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "sk-secret\n-m upright Say OK.\n"


def test_claude_code_leaves_room_for_the_answer() -> None:
    told = connect(deployment(262_144), KEY_FILE, "claude-code").environment
    assert told["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] == "32000"
    assert int(told["CLAUDE_CODE_MAX_CONTEXT_TOKENS"]) + 32_000 == 262_144
    assert "ANTHROPIC_API_KEY" not in told
    assert told["CLAUDE_CODE_ATTRIBUTION_HEADER"] == "0"


def test_writing_merges_and_keeps_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text('{"theme": "dark", "language_models": {"openai_compatible": {"other": {}}, "ollama": {}}}')
    file.chmod(0o640)
    told = connect(deployment(), KEY_FILE, "zed")
    assert write_settings(told, file) == file
    written = json.loads(file.read_text())
    assert written["theme"] == "dark"
    assert set(written["language_models"]["openai_compatible"]) == {"other", "upright"}
    assert written["language_models"]["ollama"] == {}
    assert file.stat().st_mode & 0o777 == 0o640
    assert json.loads((tmp_path / "settings.json.before-upright").read_text())["theme"] == "dark"
    (tmp_path / "settings.json.before-upright").unlink()
    write_settings(told, file)
    assert not (tmp_path / "settings.json.before-upright").exists(), "nothing changed, nothing is kept"


def test_what_the_person_had_is_still_kept_after_a_second_writing(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text('{"theme": "dark"}')
    for address in ("http://127.0.0.1:8000", "http://127.0.0.1:8001"):
        write_settings(connect(deployment().model_copy(update={"base_url": address}), KEY_FILE, "zed"), file)
    assert json.loads((tmp_path / "settings.json.before-upright").read_text()) == {"theme": "dark"}


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "dotfiles/settings.json").write_text("{}")
    (tmp_path / "settings.json").symlink_to("dotfiles/settings.json")
    write_settings(connect(deployment(), KEY_FILE, "zed"), tmp_path / "settings.json")
    assert (tmp_path / "settings.json").is_symlink()
    assert "language_models" in json.loads((tmp_path / "dotfiles/settings.json").read_text())


@pytest.mark.parametrize("there", ['{"a": 1} // mine', "[1]"])
def test_what_cannot_be_merged_is_left_alone(there: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text(there)
    with pytest.raises(UsageError):
        write_settings(connect(deployment(), KEY_FILE, "zed"), file)
    assert file.read_text() == there


def test_a_script_is_for_its_owner_alone(tmp_path: Path) -> None:
    file = write_settings(connect(deployment(), KEY_FILE, "openai"), tmp_path / "kimi.sh")
    assert file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(UsageError, match="only it can write"):
        write_settings(connect(deployment(), KEY_FILE, "cline"))
    with pytest.raises(UsageError, match="no client named vim"):
        connect(deployment(), KEY_FILE, "vim")
