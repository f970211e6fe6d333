"""Settings of terminal agents for a deployment: the variables and arguments of one process."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from urllib.parse import urlsplit

from upright.serving.connect.client_settings import ClientSettings
from upright.serving.connect.served_model import KEY_VARIABLE, PROVIDER, ServedModel, make_settings, shell_settings

_LLM_KEY = "OPENAI_API_KEY"
SESSION = ("session",)
"""How goose is begun where it is told nothing."""


def _codex(served: ServedModel) -> ClientSettings:
    provider = {
        "name": PROVIDER,
        "base_url": served.address("openai"),
        "env_key": KEY_VARIABLE,
        "wire_api": "responses",
    }
    table = ",".join(f"{name}={json.dumps(text)}" for name, text in provider.items())
    settings = {
        "model_provider": PROVIDER,
        "model": json.dumps(served.model),
        "model_context_window": str(served.context_tokens),
        f"model_providers.{PROVIDER}": f"{{{table}}}",
    }
    arguments = tuple(word for name, text in settings.items() for word in ("-c", f"{name}={text}"))
    return shell_settings(
        served,
        "codex",
        "openai",
        {},
        KEY_VARIABLE,
        program="codex",
        arguments=arguments,
        source="https://developers.openai.com/codex/config-reference (model_providers); run with codex 0.166.0",
    )


def _opencode(served: ServedModel) -> ClientSettings:
    limits = {"limit": {"context": served.context_tokens, "output": served.output_tokens}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": PROVIDER,
        "options": {"baseURL": served.address("openai"), "apiKey": f"{{env:{KEY_VARIABLE}}}"},
        "models": {served.model: limits},
    }
    settings = {"provider": {PROVIDER: provider}, "model": f"{PROVIDER}/{served.model}"}
    environment = {
        "OPENCODE_CONFIG_CONTENT": json.dumps(settings, ensure_ascii=False),
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
    }
    return shell_settings(
        served,
        "opencode",
        "openai",
        environment,
        KEY_VARIABLE,
        program="opencode",
        file="opencode.json",
        settings=settings,
        source="https://opencode.ai/docs/config and /providers (openai-compatible); run with opencode 1.18.33",
    )


def _aider(served: ServedModel) -> ClientSettings:
    address, host = served.address("openai"), urlsplit(served.base_url).hostname
    # Guard: a repository's .env and .aider.conf.yml are laid over the environment; these words are laid over them.
    sent_here = ("--set-env", f"OPENAI_BASE_URL={address}", "--set-env", f"NO_PROXY={host}")
    return shell_settings(
        served,
        "aider",
        "openai",
        {"OPENAI_API_BASE": address},
        "OPENAI_API_KEY",
        program="aider",
        arguments=("--model", f"openai/{served.model}", "--no-show-model-warnings", *sent_here),
        source="https://aider.chat/docs/llms/openai-compat.html; run with aider 0.86.2",
    )


def _qwen_code(served: ServedModel) -> ClientSettings:
    return shell_settings(
        served,
        "qwen-code",
        "openai",
        {"OPENAI_BASE_URL": served.address("openai"), "OPENAI_MODEL": served.model},
        "OPENAI_API_KEY",
        program="qwen",
        arguments=("--auth-type", "openai"),
        source="https://github.com/QwenLM/qwen-code#readme; run with qwen-code 0.24.4",
    )


def _goose(served: ServedModel) -> ClientSettings:
    environment = {
        "GOOSE_PROVIDER": "openai",
        "GOOSE_MODEL": served.model,
        "OPENAI_HOST": served.base_url,
        "GOOSE_CONTEXT_LIMIT": str(served.context_tokens),
        "GOOSE_DISABLE_KEYRING": "1",
    }
    return shell_settings(
        served,
        "goose",
        "openai",
        environment,
        "OPENAI_API_KEY",
        program="goose",
        arguments=SESSION,
        source="https://block.github.io/goose/docs/guides/environment-variables; run with goose 1.34.0",
    )


def _llm(served: ServedModel) -> ClientSettings:
    row = [
        f"- model_id: {PROVIDER}",
        f"  model_name: {json.dumps(served.model)}",
        f"  api_base: {served.address('openai')}",
        "  supports_tools: true",
        f"  api_key_name: {PROVIDER}",
    ]
    # Guard: --key would show the key in the list of processes. Without api_key_name llm sends none; with one that
    # it has not stored, it takes what the variable holds.
    text = (
        '# into extra-openai-models.yaml, in the folder of "$(llm logs path)":\n'
        + "\n".join(row)
        + f"\n# then:\nexport {_LLM_KEY}={served.key}\nllm -m {PROVIDER} {shlex.quote('Say OK.')}\n"
    )
    return make_settings(
        served,
        "llm",
        "openai",
        text,
        key_variables=(_LLM_KEY,),
        program="llm",
        source="https://llm.datasette.io/en/stable/other-models.html#openai-compatible-models; run with llm 0.36",
    )


AGENTS: dict[str, Callable[[ServedModel], ClientSettings]] = {
    "codex": _codex,
    "opencode": _opencode,
    "aider": _aider,
    "qwen-code": _qwen_code,
    "goose": _goose,
    "llm": _llm,
}
