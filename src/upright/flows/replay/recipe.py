"""The recipe of a replay: the claim's settings on this box, and those that are dropped.

The command is ours: program, image, weights, address, key and environment never come from a bundle. Of its flags only
those are taken that change speed and memory, that this version takes, and whose values are numbers or plain words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from upright.base.errors import UsageError
from upright.base.untrusted_text import on_one_line
from upright.base.yaml12 import from_yaml
from upright.facts.catalog.recorded_flags import nearest_flags
from upright.facts.records.base import Part, Reason
from upright.facts.records.recipe import Recipe, Setting

_VALUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._]{0,23}(?:,[A-Za-z0-9][A-Za-z0-9._]{0,23}){0,31}")
_REASON = "as in the recipe that is replayed"
_WISHED = "by --flag"


class DroppedSetting(Part):
    """A setting of the claim's recipe that a replay does not take."""

    name: str
    """Its name."""
    reason: Reason
    """Why."""


@dataclass(frozen=True)
class ReplayRecipe:
    """What is run, and what of the claim's recipe is not in it."""

    recipe: Recipe
    left_out: tuple[DroppedSetting, ...]


@cache
def _taken() -> dict[str, frozenset[str]]:
    kept = from_yaml((Path(__file__).parent / "replayed_flags.yaml").read_text("utf-8"))
    return {engine: frozenset(names) for engine, names in kept.items()}


def replay_recipe(claim: Recipe, own: Recipe, wished: Mapping[str, str | None], *, whole: bool) -> ReplayRecipe:
    """`whole`: the claim's recipe is complete, so that what it does not set is not set here either."""
    tunable = _taken().get(own.engine, frozenset())
    theirs: dict[str, Setting] = {}
    left_out = []
    for setting in claim.arguments:
        if setting.name in wished or setting in own.arguments:
            continue
        if (why := _why_not(setting, own, tunable)) is None:
            theirs[setting.name] = Setting(name=setting.name, value=setting.value, reason=_REASON)
        elif not _same(setting, own):
            left_out.append(DroppedSetting(name=on_one_line(setting.name, 80), reason=why))
    left_out += [
        DroppedSetting(name=on_one_line(variable.name, 80), reason="an environment is never taken from a bundle")
        for variable in claim.environment
    ]
    for name, text in wished.items():
        setting = Setting(name=name, value=text, reason=_WISHED)
        if (why := _why_not(setting, own, tunable)) is not None:
            raise UsageError(f"{on_one_line(name, 80)} cannot be given: {why}", hint="--flag --threads=4")
        theirs[name] = setting
    return ReplayRecipe(own.model_copy(update={"arguments": _merged(own, claim, theirs, tunable, whole)}), (*left_out,))


def _merged(
    own: Recipe, claim: Recipe, theirs: Mapping[str, Setting], tunable: frozenset[str], whole: bool
) -> tuple[Setting, ...]:
    stated = {setting.name for setting in claim.arguments} | theirs.keys()
    kept = [
        theirs.get(setting.name, setting)
        for setting in own.arguments
        if not (whole and setting.name in tunable and setting.name not in stated)
    ]
    present = {setting.name for setting in kept}
    return (*kept, *(setting for name, setting in theirs.items() if name not in present))


def _why_not(setting: Setting, own: Recipe, tunable: frozenset[str]) -> str | None:
    """None if it may be taken."""
    if setting.name not in tunable:
        return "no setting of speed or memory: ours is used"
    if setting.value is not None and not _VALUE.fullmatch(setting.value):
        return "its value is no number and no plain word"
    known = nearest_flags(own.engine, own.engine_version)
    if known is None or setting.name not in known:
        return f"{own.engine} {own.engine_version or ''} does not take it".replace("  ", " ")
    return None


def _same(setting: Setting, own: Recipe) -> bool:
    """Ours has it under this name, with a value of this machine: address, key, weights."""
    return any(setting.name == ours.name for ours in own.arguments)
