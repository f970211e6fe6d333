"""A way to guess ahead -> the words that an engine takes for it, and back: what an engine offers at all.

Pure. Which draft is worth its memory is not known here: that is measured (upright.proving.speculating).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, Literal, get_args

from upright.engines.facets.flags import Accepted
from upright.errors import UsageError
from upright.records.recipe import Recipe, Setting

Method = Literal["none", "ngram", "draft", "eagle3", "mtp", "dflash"]
GUESSES = 3
"""Tokens that a draft guesses in a round: what published runs of Kimi K2.6 use."""
_LOOKED_UP_GUESSES = 5
_LOOKED_UP = 4
"""Tokens whose last occurrence an n-gram lookup searches for."""
_NEEDS_FILE = ("draft", "eagle3", "dflash")
_PREFIXES = ("--speculative-", "--spec-", "--draft", "--model-draft", "--max-cudagraph-capture-size")
_VLLM_SOURCE = "vllm/config/speculative.py at 0.32.0"
_LLAMA_SOURCE = "llama.cpp b11669 --help"
_LLAMA_TYPES = {"ngram": "ngram-simple", "draft": "draft-simple", "eagle3": "draft-eagle3", "mtp": "draft-mtp"}
_SGLANG_ALGORITHMS = {"ngram": "NGRAM", "draft": "STANDALONE", "eagle3": "EAGLE3", "mtp": "EAGLE", "dflash": "DFLASH"}
_OFFERED: dict[str, tuple[Method, ...]] = {
    "vllm": ("ngram", "draft", "eagle3", "mtp", "dflash"),
    "sglang": ("ngram", "draft", "eagle3", "mtp", "dflash"),
    "llama.cpp": ("ngram", "draft", "eagle3", "mtp"),
    "ik_llama.cpp": ("draft",),
}
_ABOUT: dict[Method, str] = {
    "ngram": "what followed the last words earlier in the text; needs no weights",
    "draft": "a small model with the same tokenizer",
    "eagle3": "a head made for this model, from its inner states",
    "mtp": "layers that came with the model",
    "dflash": "a diffusion draft made for this model, a block at once",
}


@dataclass(frozen=True)
class Candidate:
    """One way to guess ahead."""

    method: Method
    draft: str | None = None
    """The draft's file, folder or repository."""
    guesses: int = GUESSES
    """Tokens guessed in a round."""
    further: tuple[tuple[str, str | None], ...] = ()
    """Words for the engine: a flag, or a key of vLLM's --speculative-config."""

    @property
    def name(self) -> str:
        """For people: `eagle3 kimi-k2.6-eagle3-mla, 3 guesses`."""
        if self.method == "none":
            return "no speculation"
        what = f"{self.method} {PurePath(self.draft).name}" if self.draft else self.method
        more = "".join(f", {' '.join(filter(None, pair))}" for pair in self.further)
        return f"{what}, {self.guesses} guesses{more}"

    @property
    def way(self) -> str:
        """As a person names it: what `candidate` takes."""
        first = f"{self.method}={self.draft}" if self.draft else self.method
        usual = _LOOKED_UP_GUESSES if self.method == "ngram" else GUESSES
        more = () if self.guesses == usual else (f"k={self.guesses}",)
        return ",".join((first, *more, *("=".join(filter(None, pair)) for pair in self.further)))


@dataclass(frozen=True)
class Offer:
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


def candidate(text: str) -> Candidate:
    """`ngram`, `draft=PATH`, `eagle3=PATH,k=3`; what else stands after a comma is for the engine."""
    first, *rest = text.split(",")
    method, _, draft = first.partition("=")
    if method not in get_args(Method):
        known = ", ".join(f"{each}=PATH" if each in _NEEDS_FILE else each for each in get_args(Method))
        raise UsageError(f"no way to speculate named {method!r}", hint=f"known: {known}, auto")
    if (method in _NEEDS_FILE) != bool(draft):
        example = f"{method}=PATH" if method in _NEEDS_FILE else method
        raise UsageError(f"{text!r}: write {example}", hint="what the engine offers: upright prove --to speculation")
    found = Candidate(
        method=method,  # type: ignore[arg-type]
        draft=draft or None,
        guesses=_LOOKED_UP_GUESSES if method == "ngram" else GUESSES,
    )
    for word in rest:
        name, given, value = word.partition("=")
        if name == "k":
            if not value.isdigit() or int(value) < 1:
                raise UsageError(f"{text!r}: k is a number of guesses, such as k=3")
            found = replace(found, guesses=int(value))
        elif name:
            found = replace(found, further=(*found.further, (name, value if given else None)))
    return found


def offers(
    engine: str, accepted: Accepted, *, drafts: Iterable[tuple[str, str]] = (), own_layers: int = 0
) -> tuple[Offer, ...]:
    """What this version takes: `drafts` are (method, repository) of the catalogue, `own_layers` the model's MTP."""
    flag = {"vllm": "--speculative-config", "sglang": "--speculative-algorithm", "llama.cpp": "--spec-type"}
    if engine in flag and flag[engine] not in accepted:
        return ()
    known = tuple(drafts)
    return tuple(
        Offer(method, _ABOUT[method], tuple(where for kind, where in known if kind == method))
        for method in _OFFERED.get(engine, ())
        if method != "mtp" or own_layers
    )


def speculative_settings(engine: str, wanted: Candidate, accepted: Accepted, *, sequences: int = 0) -> list[Setting]:
    """The words of one engine; `sequences` are requests at once where CUDA graphs are captured for them, else 0."""
    if wanted.method == "none":
        return []
    if wanted.method not in _OFFERED.get(engine, ()):
        offered = ", ".join(_OFFERED.get(engine, ("none",)))
        raise UsageError(f"{engine} has no {wanted.method}", hint=f"it has {offered}")
    if engine == "vllm":
        return _vllm(wanted, sequences)
    made = _sglang(wanted) if engine == "sglang" else _llama(wanted, accepted)
    given = [Setting(name=name, value=value, reason="given with --speculate") for name, value in wanted.further]
    return [*made, *given]


def with_speculation(recipe: Recipe, wanted: Candidate, accepted: Accepted) -> Recipe:
    """The same recipe that guesses so, and in no other way."""
    given = {setting.name: setting.value for setting in recipe.arguments}
    graphs = "--enforce-eager" not in given
    sequences = int(given.get("--max-num-seqs") or 0) if graphs else 0
    kept = [setting for setting in recipe.arguments if not is_speculative(setting)]
    added = speculative_settings(recipe.engine, wanted, accepted, sequences=sequences)
    return recipe.model_copy(update={"arguments": (*kept, *added), "made_from": (recipe.reference,)})


def is_speculative(setting: Setting) -> bool:
    return setting.name.startswith(_PREFIXES) or setting.name == "-md"


def speculation_of(recipe: Recipe) -> str | None:
    """What a recipe says of guessing, in its own words; None if it does not guess."""
    found = [setting for setting in recipe.arguments if is_speculative(setting)]
    return " ".join(" ".join(filter(None, (each.name, each.value))) for each in found) or None


def _vllm(wanted: Candidate, sequences: int) -> list[Setting]:
    config: dict[str, Any] = {"method": "draft_model" if wanted.method == "draft" else wanted.method}
    config["num_speculative_tokens"] = wanted.guesses
    if wanted.draft:
        config["model"] = wanted.draft
    if wanted.method == "ngram":
        config |= {"prompt_lookup_max": _LOOKED_UP, "prompt_lookup_min": 2}
    config |= {name.lstrip("-").replace("-", "_"): _value(value) for name, value in wanted.further}
    made = [
        Setting(
            name="--speculative-config",
            value=json.dumps(config, separators=(",", ":")),
            reason=_reason(wanted),
            source=_VLLM_SOURCE,
        )
    ]
    if sequences:
        made.append(
            Setting(
                name="--max-cudagraph-capture-size",
                value=str(sequences * (wanted.guesses + 1)),
                reason="sequences x (guesses + 1): larger batches would leave the CUDA graphs",
                source="local-inference-lab/rtx6kpro models/kimi-k26-v2.md",
            )
        )
    return made


def _sglang(wanted: Candidate) -> list[Setting]:
    algorithm = _SGLANG_ALGORITHMS[wanted.method]
    source = "sglang/srt/speculative/spec_info.py at 0.5.23"
    made = [Setting(name="--speculative-algorithm", value=algorithm, reason=_reason(wanted), source=source)]
    if wanted.draft:
        made.append(Setting(name="--speculative-draft-model-path", value=wanted.draft, reason="the draft model"))
    if wanted.method == "ngram":
        reason = "tokens verified in a round"
        return [*made, Setting(name="--speculative-num-draft-tokens", value=str(wanted.guesses), reason=reason)]
    steps, chain = str(wanted.guesses), str(wanted.guesses + 1)
    return [
        *made,
        Setting(name="--speculative-num-steps", value=steps, reason="guesses one after another"),
        Setting(name="--speculative-eagle-topk", value="1", reason="one guess at each step: a chain, no tree"),
        Setting(name="--speculative-num-draft-tokens", value=chain, reason="the chain and the token before it"),
    ]


def _llama(wanted: Candidate, accepted: Accepted) -> list[Setting]:
    """Builds before --spec-type, and ik_llama.cpp, guess as soon as they are given a draft."""
    made, reason = [], _reason(wanted)
    if accepted.flags and "--spec-type" in accepted and "--spec-draft-n-max" in accepted:
        kind = _LLAMA_TYPES[wanted.method]
        made.append(Setting(name="--spec-type", value=kind, reason=reason, source=_LLAMA_SOURCE))
    if wanted.draft:
        flag = accepted.first("--spec-draft-model", "--model-draft") or "--model-draft"
        made.append(Setting(name=flag, value=wanted.draft, reason="the draft model; its cache is its own"))
    if wanted.method == "ngram":
        sizes = (("n", _LOOKED_UP, "tokens that are looked up"), ("m", wanted.guesses, "tokens that are guessed"))
        return [
            *made,
            *(
                Setting(name=f"--spec-ngram-simple-size-{letter}", value=str(count), reason=why, source=_LLAMA_SOURCE)
                for letter, count, why in sizes
            ),
        ]
    flag = accepted.first("--spec-draft-n-max", "--draft-max") or "--draft-max"
    return [*made, Setting(name=flag, value=str(wanted.guesses), reason="guesses in a round")]


def _reason(wanted: Candidate) -> str:
    return f"{wanted.method} guesses {wanted.guesses} tokens ahead: a latency feature, judged on your load"


def _value(text: str | None) -> Any:
    """A word as JSON has it: 4 is a number, synthetic is text."""
    if text is None:
        return True
    try:
        return json.loads(text)
    except ValueError:
        return text
