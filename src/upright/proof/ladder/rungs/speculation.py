"""Does speculative decoding pay on this load? Without a candidate: what the engine offers, and how to try it.

The trial itself starts engines again and again, so it is a step after the climb
(upright.proof.ladder.speculation_trial); its verdicts are this rung's observations.
"""

from __future__ import annotations

from collections.abc import Iterator

from upright.base.progress import utc_now
from upright.engines.facets.flags import Accepted
from upright.engines.speculation import Offer, offers, speculation_of
from upright.facts import catalog
from upright.facts.catalog.recorded_flags import nearest_flags
from upright.facts.records.evidence import Observation, Verdict
from upright.facts.records.recipe import Recipe
from upright.facts.records.speculation import Speculation, Tried
from upright.proof.benchmark.comparison import shape_words
from upright.proof.ladder.observing import Slot, observation_of
from upright.proof.ladder.prompts import PromptSet
from upright.proof.ladder.rung import LadderRung, Probe, ProofContext

NAME = "speculation"
_VERDICTS: dict[str, Verdict] = {"fell": "unsupported", "damages": "unsupported"}


def speculation_offers(recipe: Recipe) -> tuple[Offer, ...]:
    """What the recipe's engine offers for its model, by its version's recorded flags and the catalogue's drafts."""
    recorded = nearest_flags(recipe.engine, recipe.engine_version)
    flags = Accepted(recorded.flags, recorded.version) if recorded else Accepted(frozenset(), None)
    row = catalog.find_model(recipe.served_name)
    drafts = [(draft.method, draft.repository) for draft in row.drafts] if row else []
    own = 1 if any(method == "mtp" for method, _ in drafts) else 0
    return offers(recipe.engine, flags, drafts=drafts, own_layers=own)


def trial_observations(record: Speculation, prompts: PromptSet) -> tuple[Observation, ...]:
    """The trial as evidence. What was taken back leaves a deployment that stands, so none of it is a failure of it."""
    return tuple(seen for tried in record.tried for seen in _observed(record, tried, prompts))


def _observed(record: Speculation, tried: Tried, prompts: PromptSet) -> Iterator[Observation]:
    def seen(check: str, verdict: Verdict, reason: str, measured: dict[str, float | None]) -> Observation:
        return Observation(
            rung=NAME,
            check=check,
            probe=f"{tried.name}: {check}",
            verdict=verdict,
            reason=reason,
            at=utc_now(),
            seconds=0.0,
            request={},
            response=None,
            subject=tried.recipe,
            prompts=f"{prompts.name}:{prompts.digest}",
            measured={name: figure for name, figure in measured.items() if figure is not None},
        )

    for cell in tried.cells:
        verdict: Verdict = "skipped" if cell.verdict == "not measurable" else "passed"
        figures = {
            "factor": cell.output.factor if cell.output else None,
            "low": cell.output.low if cell.output else None,
            "high": cell.output.high if cell.output else None,
            "base_tokens_per_second": cell.base_tokens_per_second,
            "tokens_per_second": cell.tokens_per_second,
            "acceptance": cell.acceptance,
            "published_factor": cell.published.factor if cell.published else None,
        }
        yield seen(shape_words(cell.shape), verdict, f"{tried.method} {cell.reason}", figures)
    figures = {
        "answers": float(tried.answers),
        "answers_alike": float(tried.answers_alike),
        "acceptance": tried.acceptance,
        "pool_tokens": tried.pool_tokens,
        "base_pool_tokens": record.base_pool_tokens,
    }
    outcome_text = f"{tried.name} {'is kept' if tried.outcome == 'kept' else 'is taken back'}: {tried.reason}"
    yield seen("outcome", _VERDICTS.get(tried.outcome, "passed"), outcome_text, figures)


def _probes(stand: ProofContext) -> list[Probe]:
    return [Probe("offers", "offers", _offers)]


def _offers(stand: ProofContext) -> Observation:
    recipe, slot = stand.target.recipe, Slot(NAME, "offers", "offers")
    assert recipe is not None
    found = speculation_offers(recipe)
    engine = " ".join(filter(None, (recipe.engine, recipe.engine_version)))
    if not found:
        return observation_of(stand, slot, "skipped", f"{engine} offers no way to guess ahead")
    now = f"; it runs with {running_method}" if (running_method := speculation_of(recipe)) else ""
    methods = ", ".join(offer.words for offer in found)
    return observation_of(stand, slot, "skipped", f"{engine} offers {methods}; try one with --speculate{now}")


RUNG = LadderRung(
    NAME, "does speculative decoding pay, cell by cell, and are its answers the model's", _probes, needs_recipe=True
)
