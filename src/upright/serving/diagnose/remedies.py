"""Applies one remedy to a recipe, or says that only a person can."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import overload

from upright.facts import catalog
from upright.facts.catalog import versions
from upright.facts.records.diagnosis import Remedy
from upright.facts.records.recipe import Recipe, Setting

OF_ANOTHER = "the value of "
"""How a row's value begins that is another flag's."""
_PLACE = re.compile(r"\{(\w+)\}")
_ASIDE = re.compile(r" \(\{(\w+)\}\)")
_FLOORS = {"--ctx-size": 512, "--max-model-len": 1024, "--context-length": 1024}
_FRACTION_STEP, _HIGHEST_FRACTION, _LOWEST_FRACTION = 0.03, 0.97, 0.5


def remedies_for_line(remedies: Sequence[Remedy], engine: str | None, words: Mapping[str, str]) -> tuple[Remedy, ...]:
    """Those of this engine, with what the line names in the place of `{word}`."""
    ours = [remedy for remedy in remedies if engine is None or remedy.engine in (None, engine)]
    fitting = [
        remedy.model_copy(
            update={
                "name": fill_placeholders(remedy.name, words),
                "value": fill_placeholders(remedy.value, words),
                "why": fill_placeholders(remedy.why, words),
                "commands": tuple(fill_placeholders(command, words) for command in remedy.commands),
                "engine": None if engine is not None else remedy.engine,
            }
        )
        for remedy in ours
    ]
    return tuple(remedy for remedy in fitting if not _PLACE.search(f"{remedy.name} {remedy.value}"))


@overload
def fill_placeholders(text: str, words: Mapping[str, str]) -> str: ...


@overload
def fill_placeholders(text: None, words: Mapping[str, str]) -> None: ...


def fill_placeholders(text: str | None, words: Mapping[str, str]) -> str | None:
    """What the line names in the place of `{word}`; brackets around a word that it does not name are left out."""
    if text is None:
        return None
    told = _ASIDE.sub(lambda aside: aside[0] if aside[1] in words else "", text)
    return _PLACE.sub(lambda place: words.get(place[1], place[0]), told)


def apply_remedy(recipe: Recipe, remedy: Remedy, *, free_port: int | None = None) -> Recipe | None:
    """None: by hand, for another engine, or a change that this recipe has made already."""
    changes: dict[str, Callable[[Recipe, Remedy], Recipe | None]] = {
        "set_flag": _set_flag,
        "unset_flag": _unset_flag,
        "raise_flag": _raise_flag,
        "lower_flag": _lower_flag,
        "set_env": _set_env,
        "unset_env": _unset_env,
        "use_image": _use_image,
    }
    if remedy.engine not in (None, recipe.engine):
        return None
    if remedy.do == "other_port":
        return None if free_port is None else _on_port(recipe, free_port)
    change = changes.get(remedy.do)
    changed = change(recipe, remedy) if change else None
    return None if changed is None or _words(changed) == _words(recipe) else changed


def already_applied(recipe: Recipe, remedy: Remedy) -> bool:
    """Whether the recipe is so already: such a remedy is none."""
    if remedy.engine not in (None, recipe.engine):
        return False
    if remedy.do in ("set_flag", "unset_flag", "raise_flag", "lower_flag"):
        return _flag_is_so(recipe, remedy)
    environment = {setting.name: setting.value for setting in recipe.environment}
    match remedy.do:
        case "set_env":
            return environment.get(remedy.name or "") == remedy.value
        case "unset_env":
            return remedy.name not in environment
        case "use_image":
            return recipe.image == remedy.value
        case "use_engine":
            return recipe.engine == remedy.value
        case "use_version":
            return _is_inside(recipe.engine_version, remedy.value or "*")
        case _:
            return False


def _flag_is_so(recipe: Recipe, remedy: Remedy) -> bool:
    place = _find(recipe, remedy.name)
    if remedy.do == "unset_flag":
        return place is None
    if remedy.do == "set_flag":
        wanted = _value_of_another(recipe, remedy.value)
        if wanted is None and remedy.value is not None:
            return True  # it has neither of the two
        return (place[1].value if place else _default(recipe.engine, remedy.name)) == wanted
    now, bound = _number(place[1].value or "") if place else None, _number(remedy.value or "")
    if now is None or bound is None:
        return False
    return now >= bound if remedy.do == "raise_flag" else now <= bound


def _default(engine: str, flag: str | None) -> str:
    """What holds without the flag, if the catalogue knows it; a flag that stands alone has no value to hold."""
    return next((row.default for row in catalog.flags(engine) if flag in row.flags and row.default), "")


def _is_inside(version: str | None, wanted: str) -> bool:
    try:
        return version is not None and versions.in_range(version.partition("+")[0], wanted)
    except ValueError:  # a commit is no version to compare
        return False


def spellings(engine: str, flag: str) -> tuple[str, ...]:
    """Every spelling of a flag that the catalogue knows, itself among them."""
    for row in catalog.flags(engine):
        if flag in row.flags:
            return row.flags
    return (flag,)


def _find(recipe: Recipe, flag: str | None) -> tuple[int, Setting] | None:
    names = spellings(recipe.engine, flag or "")
    return next(((at, setting) for at, setting in enumerate(recipe.arguments) if setting.name in names), None)


def _set_flag(recipe: Recipe, remedy: Remedy) -> Recipe | None:
    setting_value = _value_of_another(recipe, remedy.value)
    if setting_value is None and remedy.value is not None:
        return None
    located = _find(recipe, remedy.name)
    if located is None:
        name = spellings(recipe.engine, remedy.name or "")[0]
        return _with(recipe, (*recipe.arguments, _setting(remedy, name, setting_value)))
    at, old = located
    return _replaced(recipe, at, _setting(remedy, old.name, setting_value))


def _unset_flag(recipe: Recipe, remedy: Remedy) -> Recipe | None:
    names = spellings(recipe.engine, remedy.name or "")
    return _with(recipe, tuple(setting for setting in recipe.arguments if setting.name not in names))


def _raise_flag(recipe: Recipe, remedy: Remedy) -> Recipe | None:
    return _moved(recipe, remedy, up=True)


def _lower_flag(recipe: Recipe, remedy: Remedy) -> Recipe | None:
    return _moved(recipe, remedy, up=False)


def _moved(recipe: Recipe, remedy: Remedy, *, up: bool) -> Recipe | None:
    """To the remedy's value, if that is further; else a step: half or twice, a fraction by three hundredths."""
    located = _find(recipe, remedy.name)
    if located is None or located[1].value is None:
        return None
    at, old = located
    now = _number(old.value or "")
    wanted = _number(remedy.value) if remedy.value else None
    if now is None:
        return None
    if wanted is None:
        wanted = _step(old.name, now, up=up)
    if wanted is None or (wanted <= now if up else wanted >= now):
        return None
    changed = _replaced(recipe, at, _setting(remedy, old.name, f"{wanted:g}" if wanted < 1 else str(int(wanted))))
    return _same_context(changed, old.name, now, wanted)


def _step(flag: str, now: float, *, up: bool) -> float | None:
    if 0 < now < 1:
        wanted = round(now + (_FRACTION_STEP if up else -_FRACTION_STEP), 4)
        return wanted if _LOWEST_FRACTION <= wanted <= _HIGHEST_FRACTION else None
    wanted = now * 2 if up else now // 2
    return wanted if wanted >= _FLOORS.get(flag, 1) else None


def _same_context(recipe: Recipe, flag: str, before: float, after: float) -> Recipe:
    """The recipe says the context twice: as a flag, and for whoever proves it."""
    if flag not in _FLOORS:
        return recipe
    return recipe.model_copy(update={"context_tokens": max(1, int(recipe.context_tokens * after / before))})


def _set_env(recipe: Recipe, remedy: Remedy) -> Recipe | None:
    others = tuple(variable for variable in recipe.environment if variable.name != remedy.name)
    setting = _setting(remedy, remedy.name or "", remedy.value)
    return recipe.model_copy(update={"environment": (*others, setting)})


def _unset_env(recipe: Recipe, remedy: Remedy) -> Recipe | None:
    others = tuple(variable for variable in recipe.environment if variable.name != remedy.name)
    return recipe.model_copy(update={"environment": others})


def _use_image(recipe: Recipe, remedy: Remedy) -> Recipe | None:
    return recipe.model_copy(update={"image": remedy.value}) if recipe.image else None


def _on_port(recipe: Recipe, port: int) -> Recipe | None:
    located = _find(recipe, "--port")
    if located is None:
        return None
    at, old = located
    moved = _replaced(recipe, at, old.model_copy(update={"value": str(port), "reason": "the other one was taken"}))
    return moved.model_copy(update={"port": port})


def _value_of_another(recipe: Recipe, value: str | None) -> str | None:
    """`the value of -ctk`, as rows say it; None if the recipe does not say that one."""
    if value is None or not value.startswith(OF_ANOTHER):
        return value
    located = _find(recipe, value.removeprefix(OF_ANOTHER))
    return located[1].value if located else None


def _setting(remedy: Remedy, name: str, value: str | None) -> Setting:
    return Setting(name=name, value=value, reason=remedy.why, source="a remedy of the catalogue")


def _replaced(recipe: Recipe, at: int, setting: Setting) -> Recipe:
    return _with(recipe, (*recipe.arguments[:at], setting, *recipe.arguments[at + 1 :]))


def _with(recipe: Recipe, arguments: tuple[Setting, ...]) -> Recipe:
    return recipe.model_copy(update={"arguments": arguments})


def _words(recipe: Recipe) -> tuple[object, ...]:
    environment = {variable.name: variable.value for variable in recipe.environment}
    return recipe.argv, tuple(sorted(environment.items(), key=str)), recipe.image


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
