"""Refuses a recipe with a word that no file could hold as it is.

Values are quoted for each target; what is no value has a form: names of flags and variables, an image, an address, a
path of the API. What does not have it is refused here, so that no target has to think of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from upright.base.errors import UsageError
from upright.base.untrusted_text import checked_name
from upright.facts.records.recipe import Recipe, Setting

_FLAG = re.compile(r"[A-Za-z0-9_.=/:+,@-]{1,200}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
# As https://pkg.go.dev/github.com/distribution/reference writes it, a little wider.
_IMAGE = re.compile(
    r"([A-Za-z0-9.-]+(:[0-9]+)?/)?[a-z0-9][a-z0-9._/-]{0,200}(:[\w.-]{1,128})?(@[\w+.-]+:[0-9a-f]+)?", re.ASCII
)
_ADDRESS = re.compile(r"[A-Za-z0-9\[][A-Za-z0-9.:_\]-]{0,252}")
_API_PATH = re.compile(r"/[A-Za-z0-9._/-]{0,200}")
_HALVES = re.compile("[\ud800-\udfff]")
_LONGEST_WORD = 32_000
"""Characters; Linux ends a word at 128 KiB."""
_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}==[A-Za-z0-9][A-Za-z0-9.+!]{0,60}")
_INSIDE = re.compile(r"/[A-Za-z0-9_][A-Za-z0-9_./+-]{0,199}")
_PROGRAM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,199}")


def checked_writable(recipe: Recipe) -> Recipe:
    """UsageError says which word of it no file could hold as it is."""
    for name in (recipe.model_path, recipe.served_name, recipe.program, recipe.engine):
        checked_name(name)
    for setting in (*recipe.arguments, *recipe.environment):
        _refuse_unspeakable(setting)
    for what, form, text in _formed(recipe):
        if form.fullmatch(text) is None:
            raise UsageError(
                f"{text[:80]!r} is no {what}", hint="the recipe was not made by `upright render`: look at it"
            )
    return recipe


def program_inside(name: str) -> str:
    """What a container starts, by its bare name."""
    if _PROGRAM.fullmatch(name) is None:
        raise UsageError(f"{name[:80]!r} is no program that an image could hold", hint="rename or link the engine")
    return name


def _refuse_unspeakable(setting: Setting) -> None:
    """What no process can be given: a NUL ends a word, and Linux takes no longer one."""
    argument = setting.value or ""
    if "\0" in argument or len(argument) > _LONGEST_WORD or _HALVES.search(argument):
        why = (
            f"it has {len(argument):,} characters"
            if len(argument) > _LONGEST_WORD
            else "it is not UTF-8, or holds a NUL"
        )
        raise UsageError(f"the value of {setting.name} cannot be given to a process: {why}")


def _formed(recipe: Recipe) -> Iterator[tuple[str, re.Pattern[str], str]]:
    for setting in recipe.arguments:
        yield "flag", _FLAG, setting.name
    for setting in recipe.environment:
        yield "name of a variable", _VARIABLE, setting.name
    yield "address", _ADDRESS, recipe.host
    yield "path of an API", _API_PATH, recipe.health_path
    if recipe.image is not None:
        yield "image", _IMAGE, recipe.image
    if recipe.image_program is not None:
        yield "program inside an image", _INSIDE, recipe.image_program
    for package in recipe.packages:
        yield "package with its version", _PACKAGE, package
