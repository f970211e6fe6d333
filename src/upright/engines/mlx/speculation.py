"""Speculative decoding in mlx-lm's server: a draft model with the same tokenizer."""

from __future__ import annotations

from upright.engines.facets.flags import Accepted
from upright.engines.facets.speculation import Candidate, Speculating, given, reason
from upright.facts.records.recipe import Setting

_SOURCE = "mlx_lm 0.32.2 server.py --help"


def settings(wanted: Candidate, _accepted: Accepted, _sequences: int) -> list[Setting]:
    if wanted.draft is None:
        return given(wanted)
    return [
        Setting(name="--draft-model", value=wanted.draft, reason="the draft model; requests are served one by one"),
        Setting(name="--num-draft-tokens", value=str(wanted.guesses), reason=reason(wanted), source=_SOURCE),
        *given(wanted),
    ]


SPECULATION = Speculating(
    methods=("draft",), settings=settings, flags=("--draft-model", "--num-draft-tokens"), gate="--draft-model"
)
