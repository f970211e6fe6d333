"""Recipe -> a shell script that runs without Upright: variables on top, a comment for every flag."""

from __future__ import annotations

import shlex

from upright.records.recipe import KEY_FILE, Recipe, Setting


def shell_script(recipe: Recipe) -> str:
    version = f" {recipe.engine_version}" if recipe.engine_version else ""
    lines = [
        "#!/usr/bin/env bash",
        f"# Serves {recipe.served_name} with {recipe.engine}{version}. Written by upright from recipe",
        f"# {recipe.digest}.",
        "set -euo pipefail",
        "",
        f"MODEL_PATH=${{MODEL_PATH:-{shlex.quote(recipe.model_path)}}}",
        f"SERVED_MODEL_NAME=${{SERVED_MODEL_NAME:-{shlex.quote(recipe.served_name)}}}",
        f"PORT=${{PORT:-{recipe.port}}}",
        "# A file with the API key on its first line; make one with: umask 077; openssl rand -hex 24 > key",
        "KEY_FILE=${KEY_FILE:?name the file that holds the API key}",
        "",
        *(f"export {item.name}={shlex.quote(item.value or '')}  # {item.reason}" for item in recipe.environment),
        "arguments=(",
    ]
    for setting in recipe.arguments:
        lines += [f"  # {_comment(setting)}", f"  {_words(setting, recipe)}"]
    lines += [")", "", f'exec {shlex.quote(recipe.program)} "${{arguments[@]}}"', ""]
    return "\n".join(lines)


def _comment(setting: Setting) -> str:
    return f"{setting.reason} [{setting.source}]" if setting.source else setting.reason


def _words(setting: Setting, recipe: Recipe) -> str:
    if setting.value is None:
        return setting.name
    variables = {
        recipe.model_path: '"$MODEL_PATH"',
        recipe.served_name: '"$SERVED_MODEL_NAME"',
        str(recipe.port): '"$PORT"',
        KEY_FILE: '"$KEY_FILE"',
    }
    named = {"--model", "--alias", "--port", "--api-key-file"}
    value = variables.get(setting.value) if setting.name in named else None
    return f"{setting.name} {value or shlex.quote(setting.value)}"
