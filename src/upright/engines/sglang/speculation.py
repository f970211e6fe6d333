"""Speculative decoding in SGLang: --speculative-algorithm and its numbers."""

from __future__ import annotations

from upright.engines.facets.flags import Accepted
from upright.engines.facets.speculation import Candidate, Speculating, given, reason
from upright.facts.records.recipe import Setting

_ALGORITHMS = {"ngram": "NGRAM", "draft": "STANDALONE", "eagle3": "EAGLE3", "mtp": "EAGLE", "dflash": "DFLASH"}


def settings(wanted: Candidate, _accepted: Accepted, _sequences: int) -> list[Setting]:
    return [*_words(wanted), *given(wanted)]


def _words(wanted: Candidate) -> list[Setting]:
    algorithm = _ALGORITHMS[wanted.method]
    source = "sglang/srt/speculative/spec_info.py at 0.5.23"
    made = [Setting(name="--speculative-algorithm", value=algorithm, reason=reason(wanted), source=source)]
    if wanted.draft:
        made.append(Setting(name="--speculative-draft-model-path", value=wanted.draft, reason="the draft model"))
    if wanted.method == "ngram":
        why = "tokens verified in a round"
        return [*made, Setting(name="--speculative-num-draft-tokens", value=str(wanted.guesses), reason=why)]
    steps, chain = str(wanted.guesses), str(wanted.guesses + 1)
    return [
        *made,
        Setting(name="--speculative-num-steps", value=steps, reason="guesses one after another"),
        Setting(name="--speculative-eagle-topk", value="1", reason="one guess at each step: a chain, no tree"),
        Setting(name="--speculative-num-draft-tokens", value=chain, reason="the chain and the token before it"),
    ]


SPECULATION = Speculating(
    methods=("ngram", "draft", "eagle3", "mtp", "dflash"),
    settings=settings,
    flags=("--speculative-",),
    gate="--speculative-algorithm",
)
