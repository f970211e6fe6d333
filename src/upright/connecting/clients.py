"""Deployment -> what a client must be told. The key is named by its file, never printed."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

from upright.errors import UsageError
from upright.records.base import Part
from upright.records.deployment import Deployment


class ClientSettings(Part):
    """Settings for one client, as environment variables and as text to paste."""

    client: str
    """openai, anthropic, claude-code or curl."""
    base_url: str
    """What this client calls its base URL."""
    model: str
    """The served name."""
    key_file: str
    """The file that holds the key."""
    environment: dict[str, str]
    """Variables to set; the key's variable is not among them."""
    key_variables: tuple[str, ...]
    """Variables that must hold the content of `key_file`."""
    text: str
    """Ready to paste into a shell."""


def connect(deployment: Deployment, key_file: Path, client: str = "openai") -> ClientSettings:
    if client not in CLIENTS:
        raise UsageError(f"no client named {client}", hint=f"clients: {', '.join(CLIENTS)}")
    return CLIENTS[client](deployment, key_file)


def _openai(deployment: Deployment, key_file: Path) -> ClientSettings:
    base_url = f"{deployment.base_url}/v1"
    return _settings("openai", deployment, key_file, base_url, {"OPENAI_BASE_URL": base_url}, ("OPENAI_API_KEY",))


def _anthropic(deployment: Deployment, key_file: Path) -> ClientSettings:
    return _settings(
        "anthropic",
        deployment,
        key_file,
        deployment.base_url,
        {"ANTHROPIC_BASE_URL": deployment.base_url},
        ("ANTHROPIC_AUTH_TOKEN",),
    )


def _claude_code(deployment: Deployment, key_file: Path) -> ClientSettings:
    model = deployment.served_name
    # Guard: vLLM takes only `Authorization: Bearer`, which ANTHROPIC_AUTH_TOKEN sends and ANTHROPIC_API_KEY does not;
    # the attribution header carries a hash of each request and defeats prefix caching.
    environment = {
        "ANTHROPIC_BASE_URL": deployment.base_url,
        "ANTHROPIC_MODEL": model,
        "ANTHROPIC_DEFAULT_OPUS_MODEL": model,
        "ANTHROPIC_DEFAULT_SONNET_MODEL": model,
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": model,
        "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
        "API_TIMEOUT_MS": "1800000",
    }
    return _settings("claude-code", deployment, key_file, deployment.base_url, environment, ("ANTHROPIC_AUTH_TOKEN",))


def _curl(deployment: Deployment, key_file: Path) -> ClientSettings:
    body = json.dumps({"model": deployment.served_name, "messages": [{"role": "user", "content": "Say OK."}]})
    # The header goes through a pipe: an argument of curl could be read in the list of processes.
    text = (
        f"printf 'Authorization: Bearer %s' \"$(cat {shlex.quote(str(key_file))})\" |\n"
        f"  curl -s -H @- -H 'Content-Type: application/json' \\\n"
        f"    -d {shlex.quote(body)} \\\n"
        f"    {shlex.quote(deployment.base_url + '/v1/chat/completions')}\n"
    )
    return ClientSettings(
        client="curl",
        base_url=f"{deployment.base_url}/v1",
        model=deployment.served_name,
        key_file=str(key_file),
        environment={},
        key_variables=(),
        text=text,
    )


def _settings(
    client: str,
    deployment: Deployment,
    key_file: Path,
    base_url: str,
    environment: dict[str, str],
    key_variables: tuple[str, ...],
) -> ClientSettings:
    lines = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
    lines += [f'export {name}="$(cat {shlex.quote(str(key_file))})"' for name in key_variables]
    lines.append(f"# model: {deployment.served_name}")
    return ClientSettings(
        client=client,
        base_url=base_url,
        model=deployment.served_name,
        key_file=str(key_file),
        environment=environment,
        key_variables=key_variables,
        text="\n".join(lines) + "\n",
    )


CLIENTS: dict[str, Callable[[Deployment, Path], ClientSettings]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "claude-code": _claude_code,
    "curl": _curl,
}
