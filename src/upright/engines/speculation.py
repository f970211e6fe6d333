"""Speculative decoding: what an engine offers, and the settings of a candidate.

Pure. Which draft is worth its memory is not known here: that is measured (upright.proof.ladder.speculation_trial).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import NamedTuple, get_args

from upright.base.errors import UsageError
from upright.engines import ENGINES
from upright.engines.facets.flags import Accepted
from upright.engines.facets.speculation import GUESSES, LOOKED_UP_GUESSES, Candidate, Method, Speculating
from upright.facts.records.recipe import Recipe, Setting

_NEEDS_FILE = ("draft", "eagle3", "dflash")
_ABOUT: dict[Method, str] = {
    "ngram": "what followed the last words earlier in the text; needs no weights",
    "draft": "a small model with the same tokenizer",
    "eagle3": "a head made for this model, from its inner states",
    "mtp": "layers that came with the model",
    "dflash": "a diffusion draft made for this model, a block at once",
}


class Offer(NamedTuple):
    """What an engine can do, and what it needs for that."""

    method: Method
    about: str
    drafts: tuple[str, ...] = ()
    """Drafts that the catalogue knows for this model."""

    @property
    def words(self) -> str:
        """As a person names it."""
        if self.method not in _NEEDS_FILE:
            return self.method
        return f"{self.method}={self.drafts[0] if self.drafts else 'PATH'}"


def parse_candidate(text: str) -> Candidate:
    """`ngram`, `draft=PATH`, `eagle3=PATH,k=3`; what else stands after a comma is for the engine."""
    first, *rest = text.split(",")
    method, _, draft = first.partition("=")
    if method not in get_args(Method):
        known = ", ".join(
            f"{known_method}=PATH" if known_method in _NEEDS_FILE else known_method for known_method in get_args(Method)
        )
        raise UsageError(f"no way to speculate named {method!r}", hint=f"known: {known}, auto")
    if (method in _NEEDS_FILE) != bool(draft):
        example = f"{method}=PATH" if method in _NEEDS_FILE else method
        raise UsageError(f"{text!r}: write {example}", hint="what the engine offers: upright prove --to speculation")
    parsed = Candidate(
        method=method,  # type: ignore[arg-type]
        draft=draft or None,
        guesses=LOOKED_UP_GUESSES if method == "ngram" else GUESSES,
    )
    for word in rest:
        name, given, setting = word.partition("=")
        if name == "k":
            if not setting.isdigit() or int(setting) < 1:
                raise UsageError(f"{text!r}: k is a number of guesses, such as k=3")
            parsed = replace(parsed, guesses=int(setting))
        elif name:
            parsed = replace(parsed, further=(*parsed.further, (name, setting if given else None)))
    return parsed


def offers(
    engine: str, accepted: Accepted, *, drafts: Iterable[tuple[str, str]] = (), own_layers: int = 0
) -> tuple[Offer, ...]:
    """What this version takes: `drafts` are (method, repository) of the catalogue, `own_layers` the model's MTP."""
    speculation = _of(engine)
    if speculation is None or (speculation.gate is not None and speculation.gate not in accepted):
        return ()
    known = tuple(drafts)
    return tuple(
        Offer(method, _ABOUT[method], tuple(where for kind, where in known if kind == method))
        for method in speculation.methods
        if method != "mtp" or own_layers
    )


def speculative_settings(engine: str, wanted: Candidate, accepted: Accepted, *, sequences: int = 0) -> list[Setting]:
    """The words of one engine; `sequences` are requests at once where CUDA graphs are captured for them, else 0."""
    if wanted.method == "none":
        return []
    speculation = _of(engine)
    methods = speculation.methods if speculation else ()
    if speculation is None or wanted.method not in methods:
        raise UsageError(f"{engine} has no {wanted.method}", hint=f"it has {', '.join(methods) or 'none'}")
    return speculation.settings(wanted, accepted, sequences)


def with_speculation(recipe: Recipe, wanted: Candidate, accepted: Accepted) -> Recipe:
    """The same recipe that guesses so, and in no other way."""
    given = {setting.name: setting.value for setting in recipe.arguments}
    speculation = _of(recipe.engine)
    sequences = speculation.captured(given) if speculation else 0
    kept = [setting for setting in recipe.arguments if not is_speculative(setting)]
    added = speculative_settings(recipe.engine, wanted, accepted, sequences=sequences)
    return recipe.model_copy(update={"arguments": (*kept, *added), "made_from": (recipe.reference,)})


def is_speculative(setting: Setting) -> bool:
    return setting.name.startswith(_flags())


@cache
def _flags() -> tuple[str, ...]:
    """Of all engines."""
    known = (engine.speculation for engine in ENGINES.values())
    return tuple(dict.fromkeys(flag for speculation in known if speculation for flag in speculation.flags))


def _of(engine: str) -> Speculating | None:
    """None for what is no engine, such as a router, and for an engine that does not guess."""
    known = ENGINES.get(engine)
    return known.speculation if known else None


def speculation_of(recipe: Recipe) -> str | None:
    """What a recipe says of guessing, in its own words; None if it does not guess."""
    flags = [setting for setting in recipe.arguments if is_speculative(setting)]
    return " ".join(" ".join(filter(None, (flag.name, flag.value))) for flag in flags) or None
