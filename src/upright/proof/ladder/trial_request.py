"""A trial of speculative decoding as a person names it: methods, drafts, cells."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from upright.base.errors import UsageError
from upright.engines.facets.speculation import Candidate
from upright.engines.speculation import parse_candidate
from upright.facts.records.recipe import Recipe
from upright.facts.store import DeploymentDir
from upright.proof.ladder.speculation_trial import MEASURING_SECONDS, OUTPUT_TOKENS, Trial, automatic_candidates
from upright.serving.fetch import find_weights

Cells = tuple[tuple[int, int], ...]
"""(tokens of a prompt, requests at once)."""


def trial_of(
    directory: DeploymentDir,
    ways: tuple[str, ...],
    cells: Cells,
    repeats: int,
    output_tokens: int | None,
    keep: bool,
    budget: float | None,
) -> Trial | None:
    if not ways:
        return None
    recipe, named_candidates = directory.read(Recipe), list[Any]()
    for way in ways:
        named_candidates += automatic_candidates(recipe) if way == "auto" else [candidate_on_disk(way)]
    if not named_candidates:
        raise UsageError(f"{recipe.engine} offers nothing that needs no draft", hint="name one: --speculate draft=PATH")
    candidates = tuple(dict.fromkeys(named_candidates))
    tokens = OUTPUT_TOKENS if output_tokens is None else output_tokens
    if not 2 <= tokens < recipe.context_tokens:
        raise UsageError(
            f"answers of {tokens:,} tokens are no measure of a context of {recipe.context_tokens:,}",
            hint="--output-tokens 64",
        )
    return Trial(candidates, cells, repeats, tokens, budget_seconds=budget or MEASURING_SECONDS, keep=keep)


def candidate_on_disk(way: str) -> Candidate:
    """A draft by its path, as the engine will be told it; engines of ours download nothing by themselves."""
    wanted = parse_candidate(way)
    if wanted.draft is None:
        return wanted
    given = Path(wanted.draft)
    path = given if given.exists() else find_weights(wanted.draft)
    if path is None:
        raise UsageError(f"no draft at {wanted.draft}", hint=f"a path, or fetch it first: upright fetch {wanted.draft}")
    return replace(wanted, draft=str(path.absolute()))
