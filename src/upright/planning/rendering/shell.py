"""Recipe -> a shell script that runs the engine without Upright."""

from __future__ import annotations

from upright.engines.speculation import is_speculative
from upright.facts.records.recipe import KEY, PASSED_VALUE, Recipe
from upright.planning.rendering import script
from upright.planning.rendering.quoting import shell_word


def shell_script(recipe: Recipe, *, drafted: Recipe | None = None, draft: str | None = None) -> str:
    """`drafted` is the same recipe with a draft model: what it adds is put behind ENABLE_EAGLE3."""
    lines = script.heading(recipe)
    lines += script.variables(recipe, draft)
    lines += script.key_file(recipe)
    lines += script.key_for_process(recipe)
    for setting in recipe.environment:
        if setting.value == PASSED_VALUE:
            lines += [f"# {script.comment(setting)}", f': "${{{setting.name}:?is handed on to the engine: export it}}"']
        elif setting.value != KEY:
            lines += [f"# {script.comment(setting)}", f"export {setting.name}={shell_word(setting.value or '')}"]
    lines += ["", *script.arguments("arguments", recipe.arguments)]
    lines += draft_switch(drafted, draft)
    return "\n".join([*lines, "", f'exec {shell_word(recipe.program)} "${{arguments[@]}}"', ""])


def draft_switch(drafted: Recipe | None, draft: str | None) -> list[str]:
    if drafted is None or draft is None:
        return []
    added = [setting for setting in drafted.arguments if is_speculative(setting)]
    return [
        'if [ "$ENABLE_EAGLE3" = 1 ]; then',
        *(f"  {line}" for line in script.arguments("arguments+", added, draft)),
        "fi",
    ]
