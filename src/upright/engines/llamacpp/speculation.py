"""Speculative decoding in llama-server: its flags.

Builds before --spec-type, and forks, guess as soon as they are given a draft.
"""

from __future__ import annotations

from upright.engines.facets.flags import Accepted
from upright.engines.facets.speculation import LOOKED_UP, Candidate, Speculating, given, reason
from upright.facts.records.recipe import Setting

_SOURCE = "llama.cpp b11669 --help"
_TYPES = {"ngram": "ngram-simple", "draft": "draft-simple", "eagle3": "draft-eagle3", "mtp": "draft-mtp"}


def settings(wanted: Candidate, accepted: Accepted, _sequences: int) -> list[Setting]:
    return [*_words(wanted, accepted), *given(wanted)]


def _words(wanted: Candidate, accepted: Accepted) -> list[Setting]:
    made = []
    if accepted.flags and "--spec-type" in accepted and "--spec-draft-n-max" in accepted:
        kind = _TYPES[wanted.method]
        made.append(Setting(name="--spec-type", value=kind, reason=reason(wanted), source=_SOURCE))
    if wanted.draft:
        flag = accepted.first("--spec-draft-model", "--model-draft") or "--model-draft"
        made.append(Setting(name=flag, value=wanted.draft, reason="the draft model; its cache is its own"))
    if wanted.method == "ngram":
        sizes = (("n", LOOKED_UP, "tokens that are looked up"), ("m", wanted.guesses, "tokens that are guessed"))
        return [
            *made,
            *(
                Setting(name=f"--spec-ngram-simple-size-{letter}", value=str(count), reason=why, source=_SOURCE)
                for letter, count, why in sizes
            ),
        ]
    flag = accepted.first("--spec-draft-n-max", "--draft-max") or "--draft-max"
    return [*made, Setting(name=flag, value=str(wanted.guesses), reason="guesses in a round")]


SPECULATION = Speculating(
    methods=("ngram", "draft", "eagle3", "mtp"),
    settings=settings,
    flags=("--spec-", "--draft", "--model-draft", "-md"),
    gate="--spec-type",
)
