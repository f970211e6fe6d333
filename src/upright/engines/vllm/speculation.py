"""Speculative decoding in vLLM: --speculative-config."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from upright.base.bounds.bounded_json import parse_json
from upright.engines.facets.flags import Accepted
from upright.engines.facets.speculation import LOOKED_UP, Candidate, Speculating, reason
from upright.facts.records.recipe import Setting

_SOURCE = "vllm/config/speculative.py at 0.32.0"


def settings(wanted: Candidate, _: Accepted, sequences: int) -> list[Setting]:
    config: dict[str, Any] = {"method": "draft_model" if wanted.method == "draft" else wanted.method}
    config["num_speculative_tokens"] = wanted.guesses
    if wanted.draft:
        config["model"] = wanted.draft
    if wanted.method == "ngram":
        config |= {"prompt_lookup_max": LOOKED_UP, "prompt_lookup_min": 2}
    config |= {name.lstrip("-").replace("-", "_"): _value(operand) for name, operand in wanted.further}
    made = [
        Setting(
            name="--speculative-config",
            value=json.dumps(config, separators=(",", ":")),
            reason=reason(wanted),
            source=_SOURCE,
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


def captured(words: Mapping[str, str | None]) -> int:
    return 0 if "--enforce-eager" in words else int(words.get("--max-num-seqs") or 0)


def _value(text: str | None) -> Any:
    """A word as JSON has it: 4 is a number, synthetic is text."""
    if text is None:
        return True
    try:
        return parse_json(text)
    except ValueError:
        return text


SPECULATION = Speculating(
    methods=("ngram", "draft", "eagle3", "mtp", "dflash"),
    settings=settings,
    flags=("--speculative-", "--max-cudagraph-capture-size"),
    gate="--speculative-config",
    captured=captured,
)
