"""Settings -> lines of a shell script: variables on top, a comment for every flag, the key from a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from upright.facts.records.recipe import FIRST_FILE, KEY, KEY_CONFIG, KEY_FILE, UNKNOWN_FOLDER, Recipe, Setting
from upright.planning.rendering.quoting import one_line, shell_path, shell_word

_VARIABLES = {
    "serve": "MODEL_PATH",
    "--model": "MODEL_PATH",
    "--model-path": "MODEL_PATH",
    "--served-model-name": "SERVED_MODEL_NAME",
    "--alias": "SERVED_MODEL_NAME",
    "--port": "PORT",
    "--max-model-len": "MAX_MODEL_LEN",
    "--context-length": "MAX_MODEL_LEN",
    "--ctx-size": "MAX_MODEL_LEN",
    "--gpu-memory-utilization": "GPU_MEMORY_UTILIZATION",
    "--mem-fraction-static": "GPU_MEMORY_UTILIZATION",
}


def title(recipe: Recipe, how: str = "") -> list[str]:
    version = f" {recipe.engine_version}" if recipe.engine_version else ""
    commit = f" at commit {recipe.engine_commit}" if recipe.engine_commit else ""
    lines = [
        f"# Serves {recipe.served_name} with {recipe.engine}{version}{commit}{how}.",
        "# Written by `upright render`; every flag says why it is there and [where that was learned].",
        *(f"# Note: {note}" for note in recipe.notes),
    ]
    return [one_line(line) for line in lines]


def heading(recipe: Recipe, how: str = "") -> list[str]:
    return ["#!/usr/bin/env bash", *title(recipe, how), "set -euo pipefail", ""]


def variables(recipe: Recipe, draft: str | None = None, inside: Iterable[Setting] | None = None) -> list[str]:
    """The variables that field reports use, with what was planned as their defaults; `inside` a container's own."""
    lines = []
    for setting in recipe.arguments if inside is None else inside:
        name = _VARIABLES.get(setting.name)
        if name and setting.value is not None:
            lines.append(_model_path(setting.value) if name == "MODEL_PATH" else _default(name, setting.value))
    if draft is not None:
        lines += [
            "ENABLE_EAGLE3=${ENABLE_EAGLE3:-0}  # 1: speculative decoding with a draft model: prove the base first",
            f"EAGLE3_MODEL=${{EAGLE3_MODEL:-{shell_path(draft)}}}",
        ]
    if not recipe.takes_key:
        return lines
    return [*lines, "KEY_FILE=${KEY_FILE:-$HOME/.config/upright/key}  # the API key, on its first line"]


def key_file(recipe: Recipe) -> list[str]:
    """Made once, readable by its owner alone."""
    if not recipe.takes_key:
        return []
    return [
        "",
        'if [ ! -s "$KEY_FILE" ]; then',
        '  mkdir -p "$(dirname "$KEY_FILE")"',
        "  (umask 077 && od -An -tx1 -N24 /dev/urandom | tr -d ' \\n' >\"$KEY_FILE\")",
        '  echo "a new API key is in $KEY_FILE" >&2',
        "fi",
    ]


def key_for_process(recipe: Recipe) -> list[str]:
    if recipe.key_way == "environment":
        name = next(setting.name for setting in recipe.environment if setting.value == KEY)
        return [f'{name}=$(<"$KEY_FILE")', f"export {name}  # not on the command line, where `ps` would show it"]
    if recipe.key_way == "config":
        return [
            "# The key in a file that only you can read: on the command line `ps` would show it.",
            'KEY_CONFIG="$KEY_FILE.yaml"',
            '(umask 077 && printf \'api-key: %s\\n\' "$(<"$KEY_FILE")" >"$KEY_CONFIG")',
        ]
    return []


def arguments(name: str, settings: Iterable[Setting], draft: str | None = None) -> list[str]:
    """A bash array with a comment for every flag."""
    return [f"{name}=(", *(f"  {line}" for setting in settings for line in argument(setting, draft)), ")"]


def argument(setting: Setting, draft: str | None = None) -> Iterator[str]:
    yield f"# {comment(setting)}"
    variable = _VARIABLES.get(setting.name)
    if setting.value is None:
        yield setting.name
    elif variable:
        yield f'{setting.name} "${variable}"'
    else:
        yield f"{setting.name} {_quoted(setting.value, draft)}"


def comment(setting: Setting) -> str:
    return one_line(f"{setting.reason} [{setting.source}]" if setting.source else setting.reason)


def _model_path(path: str) -> str:
    """The script asks for what nobody knows, instead of starting an engine on a name that is nobody's."""
    folder, name = str(PurePosixPath(path).parent), PurePosixPath(path).name
    if folder != UNKNOWN_FOLDER and name != FIRST_FILE:
        return f"MODEL_PATH=${{MODEL_PATH:-{shell_path(path)}}}"
    what = "the first file of the weights" if name == FIRST_FILE else shell_word(name)
    spelling = "by its path" if folder == UNKNOWN_FOLDER else f"as {shell_path(folder)}/NAME.gguf"
    return f"MODEL_PATH=${{MODEL_PATH:?name {what}, {spelling}}}"


def _default(name: str, value: str) -> str:
    return f"{name}=${{{name}:-{shell_word(value)}}}"


def _quoted(value: str, draft: str | None) -> str:
    if value in (KEY_FILE, KEY_CONFIG):
        return '"$KEY_FILE"' if value == KEY_FILE else '"$KEY_CONFIG"'
    if draft and draft in value:
        return '"$EAGLE3_MODEL"'.join(shell_word(part) if part else "" for part in value.split(draft))
    return shell_word(value)
