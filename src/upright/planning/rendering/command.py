"""A command that can be pasted into a shell: the key made once, then the engine or its container.

No `exec`, no `set -e`: it is pasted into a person's own shell. Reasons stand in the script and in the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from upright.facts.records.recipe import KEY, KEY_CONFIG, KEY_FILE, PASSED_VALUE, UNKNOWN_FOLDER, Recipe, Setting
from upright.planning.rendering.container import HUB_MOUNT, container_of
from upright.planning.rendering.quoting import shell_path, shell_word, volume_source
from upright.planning.rendering.run_options import RunPaths, run_options
from upright.planning.rendering.writable import checked_writable

_HUB = "$HOME/.cache/huggingface"
_CACHES = "$HOME/.cache/upright/engines"
_KEY = "$HOME/.config/upright/key"
_OWNER = "$(id -u):$(id -g)"
_FOLDER = '"$HOME"/.config/upright'
_KEY_FILE = f"{_FOLDER}/key"
_CONFIG = f"{_FOLDER}/key.yaml"
_MAKE_KEY = (
    f"[ -s {_KEY_FILE} ] || (umask 077; mkdir -p {_FOLDER}; od -An -tx1 -N24 /dev/urandom | tr -d ' \\n' >{_KEY_FILE})"
)
_MAKE_CONFIG = f"(umask 077; printf 'api-key: %s\\n' \"$(cat {_KEY_FILE})\" >{_CONFIG})"


def command_text(recipe: Recipe) -> str:
    """Lines that end in a backslash are one command."""
    recipe = checked_writable(recipe)
    start = _process(recipe) if recipe.runtime == "process" else _container(recipe, recipe.runtime)
    return "\n".join((*((_MAKE_KEY,) if recipe.takes_key else ()), *start)) + "\n"


def _process(recipe: Recipe) -> Iterator[str]:
    if recipe.key_way == "config":
        yield _MAKE_CONFIG
    passed = [setting for setting in recipe.environment if setting.value != PASSED_VALUE]
    lines = [f"{setting.name}={_variable(setting)}" for setting in passed]
    lines += [shell_word(recipe.program), *(f"  {_words(setting)}" for setting in recipe.arguments)]
    yield _joined(lines)


def _container(recipe: Recipe, runtime: str) -> Iterator[str]:
    inside = container_of(recipe)
    mount = inside.mounts[0]
    model = _HUB if mount.target == HUB_MOUNT else volume_source(mount.source)
    places = RunPaths(model, _CACHES, _KEY, _OWNER, str(recipe.port))
    options = run_options(inside, runtime, places, gpus=recipe.gpus)
    yield 'mkdir -p "$HOME"/.cache/upright/engines'
    lines = [f"{runtime} run", *("  " + " ".join(map(_placed, option.words)) for option in options)]
    for setting in inside.environment:
        given = "" if setting.value == PASSED_VALUE else f"={shell_word(setting.value or '')}"
        lines.append(f"  --env {setting.name}{given}")
    lines += [f"  {shell_word(inside.image)}", *(f"  {shell_word(word)}" for word in inside.entrypoint[1:])]
    lines += [f"  {_words(setting)}" for setting in inside.settings]
    yield _joined(lines)


def _placed(word: str) -> str:
    """Only places of ours are left to the shell: a path that somebody named may hold a command."""
    if word == _OWNER or word.startswith((f"{_HUB}:", f"{_CACHES}:", f"{_KEY}:")):
        return f'"{word}"'
    return shell_path(word) if word.startswith("~/") else shell_word(word)


def _joined(lines: Sequence[str]) -> str:
    return " \\\n".join(lines)


def _words(setting: Setting) -> str:
    if setting.value is None:
        return setting.name
    return f"{setting.name} {_value(setting.value)}"


def _variable(setting: Setting) -> str:
    return f'"$(cat {_KEY_FILE})"' if setting.value == KEY else shell_word(setting.value or "")


def _value(given: str) -> str:
    if given in (KEY_FILE, KEY_CONFIG):
        return _KEY_FILE if given == KEY_FILE else _CONFIG
    if given.startswith(UNKNOWN_FOLDER):
        return '"${MODEL_PATH:?the first file of the weights, by its path}"'
    return shell_path(given) if given.startswith("~") else shell_word(given)
