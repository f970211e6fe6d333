"""An engine's metrics, read from Prometheus text, by names that are the same for every engine.

How each engine spells a figure is its own to say (`engines.facets.metrics`). What an engine does not export is None; a
counter that it exports and has not moved is 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from math import isfinite
from typing import Any

from upright.base.errors import EndpointError
from upright.engines import ENGINES
from upright.engines.facets.metrics import Labelled, MetricNames

# Guard: ranks of one engine repeat each other's figures; replicas (`engine`, `dp_rank`) add up. With data-parallel
# attention a replica of SGLang has no rank 0 of its own: `tp_rank` counts through all of them, and the first of each
# replica speaks for it (SGLang 0.5.23 srt/observability/metrics_collector.py, `is_stats_logging_rank`).
RANKS = ("tp_rank", "pp_rank", "moe_ep_rank")


@dataclass(frozen=True)
class Metrics:
    """One reading. Tokens and counts are totals since the engine started; `since` gives those of an interval."""

    running: float | None = None
    """Requests in the batch now."""
    waiting: float | None = None
    """Requests in the queue now."""
    kv_usage: float | None = None
    """Share of the cache in use now, 0 to 1; of the fullest replica."""
    kv_tokens: float | None = None
    """Tokens that the cache holds, as the engine itself says."""
    kv_blocks: float | None = None
    """Blocks of the cache."""
    kv_block_tokens: float | None = None
    """Tokens of a block; context parallelism makes a block hold more than this."""
    prompt_tokens: float | None = None
    """Tokens of prompts, from the cache or not."""
    cached_tokens: float | None = None
    """Tokens of prompts that were found in the cache."""
    computed_tokens: float | None = None
    """Tokens of prompts that had to be computed."""
    generation_tokens: float | None = None
    """Tokens that were generated."""
    preemptions: float | None = None
    """Requests put back because the cache was full."""
    finished: float | None = None
    """Requests that came to an end."""
    prompt_seconds: float | None = None
    """Time spent on prompts."""
    generation_seconds: float | None = None
    """Time spent on generating."""
    drafts: float | None = None
    """Rounds of guessing."""
    draft_tokens: float | None = None
    """Tokens guessed."""
    accepted_tokens: float | None = None
    """Guesses that held."""
    accepted_at: tuple[float, ...] | None = None
    """Guesses that held at the first position, the second, ..."""
    accept_length: float | None = None
    """Tokens a step with speculation, as a gauge (SGLang)."""
    accept_rate: float | None = None
    """Share of the guesses that held lately, as a gauge (SGLang)."""
    errors: float | None = None
    """Requests that its web server answered with 5xx."""
    first_tokens: float | None = None
    """Requests whose first token came."""
    first_token_seconds: float | None = None
    """What they waited for it, together."""
    weights_bytes: float | None = None
    """Weights on one rank."""
    kv_bytes: float | None = None
    """The cache on one rank."""
    graphs_bytes: float | None = None
    """CUDA graphs on one rank."""

    @property
    def acceptance(self) -> float | None:
        """Share of the guesses that held."""
        if self.draft_tokens and self.accepted_tokens is not None:
            return self.accepted_tokens / self.draft_tokens
        return self.accept_rate

    @property
    def acceptance_at(self) -> tuple[float, ...] | None:
        """Share of the rounds in which the guess at each position held."""
        if not self.drafts or self.accepted_at is None:
            return None
        return tuple(held / self.drafts for held in self.accepted_at)

    def since(self, earlier: Metrics) -> Metrics:
        """Counters as they grew since then; gauges as they are now. A counter that shrank was restarted: None."""
        changed: dict[str, Any] = {name: _grown(getattr(earlier, name), getattr(self, name)) for name in _COUNTERS}
        if self.accepted_at is not None and earlier.accepted_at is not None:
            before = (*earlier.accepted_at, *(0.0,) * len(self.accepted_at))
            changed["accepted_at"] = tuple(now - then for now, then in zip(self.accepted_at, before, strict=False))
        return Metrics(**({field.name: getattr(self, field.name) for field in fields(self)} | changed))


_COUNTERS = (
    "prompt_tokens", "cached_tokens", "computed_tokens", "generation_tokens", "preemptions", "finished",
    "prompt_seconds", "generation_seconds", "drafts", "draft_tokens", "accepted_tokens", "errors", "first_tokens",
    "first_token_seconds",
)  # fmt: skip

TAKEN_AS_MAXIMUM = frozenset({"kv_usage", "kv_block_tokens", "accept_length", "accept_rate"})
# A router's figures are of what its workers have of it (smg 1.13.0 /metrics).
ROUTER_NAMES = MetricNames(
    title="smg",
    prefix="smg_",
    fields={"running": ("smg_worker_requests_active",)},
    histograms={"request": ("smg_http_request_duration_seconds",)},
    responses={"smg_http_responses_total": "status_code"},
)
_FIELDS = tuple(field.name for field in fields(Metrics) if field.name not in ("errors", "accepted_at"))


@cache
def metric_names() -> tuple[MetricNames, ...]:
    """Every engine's, and the router's; a fork that writes its origin's names is not asked twice."""
    kinds = {id(engine.metrics): engine.metrics for engine in ENGINES.values()}
    return (*kinds.values(), ROUTER_NAMES)


@cache
def metric_spellings(field: str) -> tuple[str, ...]:
    """Every name of a field; the first that is there counts."""
    return tuple(name for known in metric_names() for name in known.fields.get(field, ()))


@cache
def response_counters() -> Mapping[str, str]:
    """Counters of a web server's answers -> the label that holds the status; names of one's own come first."""
    own = {
        name: label
        for known in metric_names()
        for name, label in known.responses.items()
        if name.startswith(known.prefix)
    }
    return own | {name: label for known in metric_names() for name, label in known.responses.items()}


def read_metrics(text: str) -> Metrics:
    """What the text says, whichever engine wrote it. EndpointError if it is not Prometheus text."""
    samples: dict[str, list[_Sample]] = {}
    for sample in _once(_samples(text)):
        samples.setdefault(sample.name, []).append(sample)
    figures: dict[str, float | tuple[float, ...] | None] = {field: _figure(field, samples) for field in _FIELDS}
    for known in metric_names():
        if known.labelled is not None:
            figures |= _labelled(known.labelled, samples.get(known.labelled.metric, ()))
    figures["errors"] = _errors(samples)
    positions = (name for known in metric_names() for name in known.positions if name in samples)
    figures["accepted_at"] = _positions(samples[name] if (name := next(positions, "")) else ())
    return Metrics(**_completed(figures))  # type: ignore[arg-type]


@dataclass(frozen=True)
class _Sample:
    name: str
    labels: Mapping[str, str]
    value: float


def _samples(text: str) -> Iterator[_Sample]:
    from prometheus_client.parser import text_string_to_metric_families

    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                yield _Sample(_named(sample.name), sample.labels, float(sample.value))
    except (ValueError, KeyError, IndexError) as error:
        raise EndpointError(f"the engine's metrics are not Prometheus text: {error}") from None


def _named(name: str) -> str:
    for written, prefix in _prefixes():
        if name.startswith(written):
            return prefix + name.removeprefix(written)
    return name


@cache
def _prefixes() -> tuple[tuple[str, str], ...]:
    return tuple(pair for known in metric_names() for pair in known.written.items())


def _once(samples: Iterator[_Sample]) -> Iterable[_Sample]:
    """Of samples that differ by nothing but their ranks the one with the lowest."""
    first: dict[tuple[str, frozenset[tuple[str, str]]], tuple[list[float], _Sample]] = {}
    for sample in samples:
        rest = frozenset((name, label_value) for name, label_value in sample.labels.items() if name not in RANKS)
        ranks = [_number(sample.labels.get(rank)) or 0.0 for rank in RANKS]
        known = first.get((sample.name, rest))
        if known is None or ranks < known[0]:
            first[sample.name, rest] = ranks, sample
    return (sample for _, sample in first.values())


def _figure(field: str, samples: Mapping[str, list[_Sample]]) -> float | None:
    name = next((name for name in metric_spellings(field) if name in samples), None)
    known = [sample for sample in samples[name] if isfinite(sample.value)] if name else []
    if not known or name is None:
        return None
    if (unit := _units().get(name)) is not None:
        return unit * max(_by_replica(known).values())
    return max(sample.value for sample in known) if field in TAKEN_AS_MAXIMUM else sum(sample.value for sample in known)


@cache
def _units() -> Mapping[str, float]:
    return {name: unit for known in metric_names() for name, unit in known.units.items()}


def _by_replica(samples: Iterable[_Sample]) -> dict[str | None, float]:
    """CUDA graphs are told by phase: those of one replica add up."""
    totals: dict[str | None, float] = {}
    for sample in samples:
        replica = sample.labels.get("dp_rank")
        totals[replica] = totals.get(replica, 0.0) + sample.value
    return totals


def _errors(samples: Mapping[str, list[_Sample]]) -> float | None:
    for name, label in response_counters().items():
        if name in samples:
            return sum(sample.value for sample in samples[name] if sample.labels.get(label, "").startswith("5"))
    return None


def _labelled(names: Labelled, samples: list[_Sample] | tuple[()]) -> dict[str, float | tuple[float, ...] | None]:
    """Figures that an engine writes into labels; nothing if it does not."""
    if not samples:
        return {}
    summed = {field: _sum_of_labels(samples, label) for field, label in names.summed.items()}
    return {**summed, **{field: _number(samples[0].labels.get(label)) for field, label in names.first.items()}}


def _sum_of_labels(samples: list[_Sample], label: str) -> float | None:
    values = [_number(sample.labels.get(label)) for sample in samples]
    return sum(number for number in values if number is not None) if None not in values else None


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text is not None else None
    except ValueError:  # vLLM writes None where it does not know yet
        return None


def _positions(samples: list[_Sample] | tuple[()]) -> tuple[float, ...] | None:
    held: dict[int, float] = {}
    for sample in samples:
        position = int(sample.labels.get("position", "0"))
        held[position] = held.get(position, 0.0) + sample.value
    return tuple(held[position] for position in sorted(held)) or None


def _completed(
    found: dict[str, float | tuple[float, ...] | None],
) -> dict[str, float | tuple[float, ...] | None]:
    """vLLM and SGLang count whole prompts, llama.cpp what it computed: the third figure follows from the other two."""
    whole, cached, computed = found["prompt_tokens"], found["cached_tokens"], found["computed_tokens"]
    if isinstance(cached, float):
        if isinstance(whole, float) and computed is None:
            return {**found, "computed_tokens": whole - cached}
        if isinstance(computed, float) and whole is None:
            return {**found, "prompt_tokens": computed + cached}
    return found


def _grown(before: float | None, now: float | None) -> float | None:
    if before is None or now is None or now < before:
        return None
    return now - before
