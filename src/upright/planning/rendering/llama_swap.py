"""Recipes that share a box -> llama-swap's config.yaml: one command for each model, and which of them may run together.

llama-swap starts what is asked for and ends what must give way. Its `matrix` names the sets that fit at once; a model
that stands in none of them runs alone. It splits a command into words as a shell does and expands `${...}` everywhere,
so a word that holds one is refused.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from upright.base.errors import UsageError
from upright.facts.records.recipe import (
    FIRST_FILE,
    KEY,
    KEY_CONFIG,
    KEY_FILE,
    PASSED_VALUE,
    UNKNOWN_FOLDER,
    Recipe,
    Setting,
)
from upright.planning.rendering.quoting import expand_home, one_line, yaml_text
from upright.planning.rendering.script import comment
from upright.planning.rendering.writable import checked_writable

FILE = "llama-swap.yaml"
_PORT = "${PORT}"
_LONGEST_START_SECONDS = 1800


def llama_swap_config(recipes: Sequence[Recipe], together: Sequence[Sequence[int]]) -> str:
    """*together* has the places of the models that fit at once, a set a line."""
    names = [recipe.served_name for recipe in recipes]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"two models are served as {twice}", hint="name another model, or another build of it")
    lines = [
        "# llama-swap --config llama-swap.yaml --listen 127.0.0.1:8080",
        "# Written by `upright render`; every flag says why it is there and [where that was learned].",
        "# Engines listen on loopback without a key of their own: keys for clients are llama-swap's `apiKeys`.",
        f"healthCheckTimeout: {_LONGEST_START_SECONDS}  # seconds that weights may take to load",
        "models:",
    ]
    for recipe in recipes:
        lines += _model(checked_writable(recipe))
    if together:
        lines += [
            "# What fits at once, by the upper ends of what the plans take; any other pair swaps.",
            "matrix:",
            "  vars:",
            *(f"    m{place}: {yaml_text(name)}" for place, name in enumerate(names, 1)),
            "  sets:",
            *(
                f"    fit{number}: {yaml_text(' & '.join(f'm{place + 1}' for place in places))}"
                for number, places in enumerate(together, 1)
            ),
        ]
    else:
        lines.append("# No two of them fit at once: each is loaded in place of the other.")
    return "\n".join([*lines, ""])


def _model(recipe: Recipe) -> list[str]:
    if recipe.nodes > 1:
        raise UsageError("a model that spans several boxes cannot be swapped", hint="--to shell, or --to kubernetes")
    if recipe.model_path.startswith(UNKNOWN_FOLDER) or recipe.model_path.endswith(FIRST_FILE):
        hint = f"upright fetch {recipe.served_name}"
        raise UsageError(f"which file of {recipe.served_name} is the first is not known", hint=hint)
    settings = [setting for setting in recipe.arguments if setting.value not in (KEY, KEY_FILE, KEY_CONFIG)]
    if not any(setting.name == "--port" for setting in settings):
        raise UsageError(f"{recipe.engine} takes no --port, by which llama-swap would reach it")
    environment = [setting for setting in recipe.environment if setting.value not in (KEY, PASSED_VALUE)]
    lines = [
        f"  {yaml_text(recipe.served_name)}:",
        *(f"    # Note: {one_line(note)}" for note in recipe.notes),
        "    cmd: |",
        f"      {_word(recipe.program)}",
        *(f"      {line}" for setting in settings for line in (f"# {_about(setting)}", _words(setting))),
        f"    checkEndpoint: {yaml_text(recipe.health_path)}",
    ]
    if environment:
        lines.append("    env:")
        for setting in environment:
            lines += [f"      # {_about(setting)}", f"      - {yaml_text(_plain(f'{setting.name}={setting.value}'))}"]
    return lines


def _about(setting: Setting) -> str:
    return comment(setting).replace("${", "$ {")


def _words(setting: Setting) -> str:
    if setting.name == "--port":
        return f"--port {_PORT}"
    words = [setting.name] if setting.value is None else [setting.name, setting.value]
    return " ".join(map(_word, words))


def _word(text: str) -> str:
    if not text.isprintable():
        raise UsageError(f"{text[:80]!r} cannot be written on one line", hint="rename the folder, or link to it")
    return shlex.quote(_plain(expand_home(text, None)))


def _plain(text: str) -> str:
    """llama-swap would expand what stands between the braces."""
    if "${" in text:
        raise UsageError(f"{text[:80]!r} holds ${{...}}, which llama-swap would expand", hint="--model-path FILE")
    return text
