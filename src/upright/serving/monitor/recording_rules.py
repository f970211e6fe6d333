"""Prometheus recording rules: each figure under a name that is the same for every engine.

Spellings are those of the engines' facets; one is only used if the version's recorded list has it. A figure that an
engine does not export has no rule, so that a panel is never drawn for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from upright.engines import ENGINES
from upright.planning.rendering.container import ROUTER
from upright.serving.endpoint.metrics import RANKS, TAKEN_AS_MAXIMUM, metric_names, metric_spellings, response_counters
from upright.serving.monitor.target import MetricsTarget

BY = "deployment, model, software"
"""What is left of the labels: ranks and replicas of one deployment are one series."""
QUANTILES = ("0.5", "0.95")

HISTOGRAMS = ("first_token", "token", "request", "queue")


@dataclass(frozen=True)
class Rule:
    """One recording rule."""

    record: str
    expression: str
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Scope:
    """One version of one engine, and the window of its rates."""

    target: MetricsTarget
    window: str

    def series(self, name: str, more: str = "") -> str:
        return f'{name}{{software="{self.target.software}",version="{self.target.metrics.version}"{more}}}'

    def once(self, vector: str) -> str:
        """Ranks of one engine repeat each other."""
        software = self.target.software
        repeats = software in ENGINES and ENGINES[software].metrics.ranks_repeat
        return f"max without ({', '.join(RANKS)}) ({vector})" if repeats else vector

    def spelling(self, field: str) -> str | None:
        return self.first(metric_spellings(field))

    def first(self, names: tuple[str, ...]) -> str | None:
        return next((name for name in names if name in self.target.metrics), None)

    def rate_of(self, name: str, more: str = "") -> str:
        return f"sum by ({BY}) ({self.once(f'rate({self.series(name, more)}[{self.window}])')})"

    def rate(self, field: str) -> str | None:
        name = self.spelling(field)
        return None if name is None else self.rate_of(name)

    def gauge(self, field: str) -> str | None:
        name = self.spelling(field)
        how = "max" if field in TAKEN_AS_MAXIMUM else "sum"
        return None if name is None else f"{how} by ({BY}) ({self.once(self.series(name))})"


def rules_for(target: MetricsTarget, window: str) -> Iterator[Rule]:
    """Every figure that this version of this engine has."""
    scope = Scope(target, window)
    for record, expression in _EXPRESSIONS.items():
        text = expression(scope)
        if text is not None:
            yield Rule(f"upright:{record}", text)
    for what in HISTOGRAMS:
        known = (name for engine in metric_names() for name in engine.histograms.get(what, ()))
        name = scope.first(tuple(f"{name}_bucket" for name in known))
        if name is not None:
            buckets = f"sum by ({BY}, le) ({scope.once(f'rate({scope.series(name)}[{window}])')})"
            for quantile in QUANTILES:
                text = f"histogram_quantile({quantile}, {buckets})"
                yield Rule(f"upright:{what}_seconds", text, (("quantile", quantile),))


def _running(scope: Scope) -> str | None:
    """A router's are on its engines: nothing is counted twice."""
    return None if scope.target.software == ROUTER else scope.gauge("running")


def _prompt(scope: Scope) -> str | None:
    """llama.cpp counts what it computed and what it found apart."""
    whole, cached, computed = (scope.rate(field) for field in ("prompt_tokens", "cached_tokens", "computed_tokens"))
    return whole or (f"{computed} + {cached}" if computed and cached else None)


def _computed(scope: Scope) -> str | None:
    whole, cached, computed = (scope.rate(field) for field in ("prompt_tokens", "cached_tokens", "computed_tokens"))
    return computed or (f"{whole} - {cached}" if whole and cached else None)


def _cached(scope: Scope) -> str | None:
    whole, cached = _prompt(scope), scope.rate("cached_tokens")
    return f"{cached} / (({whole}) > 0)" if whole and cached else None


def _acceptance(scope: Scope) -> str | None:
    accepted, guessed = scope.rate("accepted_tokens"), scope.rate("draft_tokens")
    if not scope.target.speculates:
        return None
    return f"{accepted} / ({guessed} > 0)" if accepted and guessed else scope.gauge("accept_rate")


def _accepted_length(scope: Scope) -> str | None:
    accepted, rounds = scope.rate("accepted_tokens"), scope.rate("drafts")
    if not scope.target.speculates:
        return None
    return f"1 + {accepted} / ({rounds} > 0)" if accepted and rounds else scope.gauge("accept_length")


def _requests(scope: Scope) -> str | None:
    return scope.rate_of("smg_http_requests_total") if scope.target.software == ROUTER else scope.rate("finished")


def _errors(scope: Scope) -> str | None:
    """0 is said too: a counter of errors is only exported once there was one."""
    name = scope.first(tuple(response_counters()))
    if name is None:
        return None
    errors = scope.rate_of(name, f',{response_counters()[name]}=~"5.*"')
    return f"{errors} or 0 * {scope.rate_of(name)}"


def _error_ratio(scope: Scope) -> str | None:
    name, errors = scope.first(tuple(response_counters())), _errors(scope)
    return f"({errors}) / ({scope.rate_of(name)} > 0)" if name and errors else None


def _steps(scope: Scope) -> str | None:
    name = scope.first(tuple(name for engine in metric_names() for name in engine.steps))
    return None if name is None else scope.rate_of(name)


_EXPRESSIONS: dict[str, Callable[[Scope], str | None]] = {
    "requests_running": _running,
    "requests_waiting": lambda scope: scope.gauge("waiting"),
    "generation_tokens_per_second": lambda scope: scope.rate("generation_tokens"),
    "prompt_tokens_per_second": _prompt,
    "computed_tokens_per_second": _computed,
    "cached_ratio": _cached,
    "kv_usage_ratio": lambda scope: scope.gauge("kv_usage"),
    "preemptions_per_second": lambda scope: scope.rate("preemptions"),
    "acceptance_ratio": _acceptance,
    "accepted_length_tokens": _accepted_length,
    "requests_per_second": _requests,
    "errors_per_second": _errors,
    "error_ratio": _error_ratio,
    "steps_per_second": _steps,
}
