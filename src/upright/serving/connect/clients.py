"""Settings of each client for a deployment, in the client's own words.

The key is named by its file: a shell reads it when the client starts, and Claude Code asks a command for it.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

from upright.base.errors import UsageError
from upright.engines import ENGINES
from upright.facts.records.deployment import Deployment
from upright.serving.connect.agents import AGENTS
from upright.serving.connect.client_settings import ClientSettings
from upright.serving.connect.served_model import PROVIDER, ServedModel, make_settings, shell_settings

_TIMEOUT_MS = 30 * 60 * 1000
_COMMANDS = {"claude": "claude-code", "qwen": "qwen-code"}
"""What people type, where it is not the client's name."""


def known_client(client: str) -> str:
    """By its own name, or by the command that people type for it."""
    named = client if client in CLIENTS else _COMMANDS.get(client)
    if named is None:
        raise UsageError(f"no client named {client}", hint=f"clients: {', '.join(CLIENTS)}")
    return named


def connect(deployment: Deployment, key_file: Path, client: str = "openai") -> ClientSettings:
    client = known_client(client)
    served = ServedModel(
        deployment.name, deployment.base_url, deployment.served_name, str(key_file), deployment.context_tokens
    )
    return CLIENTS[client](served)


def _openai(served: ServedModel) -> ClientSettings:
    return shell_settings(
        served,
        "openai",
        "openai",
        {"OPENAI_BASE_URL": served.address("openai")},
        "OPENAI_API_KEY",
        source="https://github.com/openai/openai-python#readme",
    )


def _anthropic(served: ServedModel) -> ClientSettings:
    return shell_settings(
        served,
        "anthropic",
        "anthropic",
        {"ANTHROPIC_BASE_URL": served.base_url},
        "ANTHROPIC_AUTH_TOKEN",
        # Guard: not every engine takes more than `Authorization: Bearer`; ANTHROPIC_AUTH_TOKEN sends that.
        notes=(
            f"ANTHROPIC_API_KEY must not be set: it is sent in a header that {_deaf()} does not read, and answers 401",
        ),
        source="https://github.com/anthropics/anthropic-sdk-python#readme",
    )


def _deaf() -> str:
    """Engines that are known not to read Anthropic's own header."""
    return ", ".join(engine.title for engine in ENGINES.values() if engine.http.reads_x_api_key is False)


_LEADS_ELSEWHERE = (
    "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY", "HTTP_PROXY", "HTTPS_PROXY",
)  # fmt: skip


def _claude_code(served: ServedModel) -> ClientSettings:
    environment = {
        "ANTHROPIC_BASE_URL": served.base_url,
        "ANTHROPIC_MODEL": served.model,
        "ANTHROPIC_DEFAULT_OPUS_MODEL": served.model,
        "ANTHROPIC_DEFAULT_SONNET_MODEL": served.model,
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": served.model,
        "CLAUDE_CODE_SUBAGENT_MODEL": served.model,
        # Guard: the header carries a hash of each request at the start of the prompt, and no prefix is ever cached.
        "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        # Guard: the answer is not reserved within the context that it assumes, so that this is what is left for input.
        "CLAUDE_CODE_MAX_CONTEXT_TOKENS": str(served.context_tokens - served.output_tokens),
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(served.output_tokens),
        "API_TIMEOUT_MS": str(_TIMEOUT_MS),
    }
    # Guard: a repository's own settings are laid over the environment, and could send the key and the person's code
    # elsewhere; what the command line says is laid over them.
    sent_here = {"ANTHROPIC_BASE_URL": served.base_url, **dict.fromkeys(_LEADS_ELSEWHERE, "")}
    return shell_settings(
        served,
        "claude-code",
        "anthropic",
        environment,
        "ANTHROPIC_AUTH_TOKEN",
        program="claude",
        arguments=("--settings", json.dumps({"env": sent_here}, separators=(",", ":"))),
        file=".claude/settings.local.json",
        # The helper's answer is sent as `Authorization: Bearer` too, so that the file holds no key.
        settings={"env": environment, "apiKeyHelper": f"cat {shlex.quote(served.key_file)}"},
        notes=(f"ANTHROPIC_API_KEY must not be set: it wins over the token and {_deaf()} answers it with 401",),
        source="https://code.claude.com/docs/en/env-vars and /settings (apiKeyHelper), /model-config",
    )


def _zed(served: ServedModel) -> ClientSettings:
    model = {
        "name": served.model,
        "display_name": f"{served.model} (upright)",
        "max_tokens": served.context_tokens,
        "max_output_tokens": served.output_tokens,
        "capabilities": {"tools": True, "images": False, "parallel_tool_calls": False, "prompt_cache_key": False},
    }
    provider = {"api_url": served.address("openai"), "available_models": [model]}
    settings = {
        "language_models": {"openai_compatible": {PROVIDER: provider}},
        "agent": {"default_model": {"provider": PROVIDER, "model": served.model}},
    }
    variable = f"{PROVIDER.upper()}_API_KEY"
    text = (
        f"{json.dumps(settings, indent=2, ensure_ascii=False)}\n"
        "# start Zed with its key, which it never keeps in that file:\n"
        f"export {variable}={served.key}\nzed\n"
    )
    return make_settings(
        served,
        "zed",
        "openai",
        text,
        key_variables=(variable,),
        file="~/.config/zed/settings.json",
        settings=settings,
        source="https://zed.dev/docs/ai/use-api-access#openai-compatible",
    )


def _cline(served: ServedModel) -> ClientSettings:
    text = (
        "# In Cline's settings (it keeps the key in the system's own store):\n"
        "API Provider             OpenAI Compatible\n"
        f"Base URL                 {served.address('openai')}\n"
        f"API Key                  the content of {served.key_file}\n"
        f"Model ID                 {served.model}\n"
        f"Context Window Size      {served.context_tokens}\n"
        f"Max Output Tokens        {served.output_tokens}\n"
        "Supports Images          off\n"
    )
    source = "https://docs.cline.bot/provider-config/openai-compatible"
    return make_settings(served, "cline", "openai", text, source=source)


def _open_webui(served: ServedModel) -> ClientSettings:
    environment = {
        "OPENAI_API_BASE_URL": served.address("openai"),
        "ENABLE_OLLAMA_API": "false",
        "ENABLE_PERSISTENT_CONFIG": "false",
    }
    return shell_settings(
        served,
        "open-webui",
        "openai",
        environment,
        "OPENAI_API_KEY",
        program="open-webui",
        arguments=("serve",),
        notes=(
            "without ENABLE_PERSISTENT_CONFIG=false it keeps the first address that it was ever given",
            "in a container 127.0.0.1 is the container: run it with --network=host",
        ),
        source="https://docs.openwebui.com/reference/env-configuration",
    )


def _curl(served: ServedModel) -> ClientSettings:
    body = json.dumps({"model": served.model, "messages": [{"role": "user", "content": "Say OK."}]})
    # The header goes through a pipe: an argument of curl could be read in the list of processes.
    text = (
        f"printf 'Authorization: Bearer %s' {served.key} |\n"
        f"  curl -s -H @- -H 'Content-Type: application/json' \\\n"
        f"    -d {shlex.quote(body)} \\\n"
        f"    {shlex.quote(served.address('openai') + '/chat/completions')}\n"
    )
    file = f"{served.name}-curl.sh"
    return make_settings(served, "curl", "openai", text, file=file, source="https://curl.se/docs/manpage.html")


CLIENTS: dict[str, Callable[[ServedModel], ClientSettings]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "claude-code": _claude_code,
    "zed": _zed,
    "cline": _cline,
    "open-webui": _open_webui,
    **AGENTS,
    "curl": _curl,
}
