"""Prometheus alert rules on the recorded figures, each with what to do next.

How long a fault must last is counted in `patience`, so that a test can wait seconds where a person waits minutes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from upright.planning.rendering.container import ROUTER


@dataclass(frozen=True)
class AlertLimits:
    """What is still well."""

    patience_seconds: float = 60
    """How long an engine may be silent; slower faults get some times as long."""
    first_token_seconds: float = 2
    """95 % of the first tokens come within this."""
    token_seconds: float = 0.05
    """95 % of the other tokens come within this."""
    kv_usage_ratio: float = 0.95
    """A cache fuller than this makes requests wait or throws them out."""
    error_ratio: float = 0.01
    """Requests that may fail."""
    acceptance_drop: float = 0.5
    """Share of its own mean of the last day below which acceptance has collapsed."""


@dataclass(frozen=True)
class Alert:
    """One row. `{limit}` in its expression is the limit's value."""

    name: str
    needs: str
    """The figure without which there is nothing to alert on: of a rule, or a metric of the router."""
    expression: str
    patience: int
    """How many times the patience it must last."""
    severity: Literal["critical", "warning"]
    summary: str
    next: str
    limit: str | None = None
    """Which of the limits."""


_WHO = "{{ $labels.deployment }}"
_ALERTS = (
    Alert("UprightDown", "", 'up{deployment!=""} == 0', 1, "critical",
          f"{_WHO} does not answer", f"upright ps, then upright diagnose {_WHO}"),
    Alert("UprightMetricsMissing", "requests_running",
          f'up{{deployment!="",software!="{ROUTER}"}} == 1 unless on (deployment) upright:requests_running',
          5, "warning", f"{_WHO} answers, but not with the metrics of the version that was recorded",
          "upright tools monitor again: the engine was changed since"),
    Alert("UprightStuck", "steps_per_second",
          "(upright:requests_running > 0) and (upright:steps_per_second == 0)", 2, "critical",
          f"{_WHO} has requests and makes no step", f"upright logs {_WHO}, then upright diagnose {_WHO}"),
    Alert("UprightQueueGrowing", "requests_waiting",
          "(upright:requests_waiting > 0) and (deriv(upright:requests_waiting[{long}]) > 0)", 5, "warning",
          f"the queue of {_WHO} grows: more is asked than it carries",
          f"upright bench {_WHO} shows the knee; upright fleet size says how many boxes"),
    Alert("UprightCacheFull", "kv_usage_ratio", "upright:kv_usage_ratio > {limit}", 5, "warning",
          f"the KV cache of {_WHO} is {{{{ $value | humanizePercentage }}}} full",
          "less context or fewer users: upright plan MODEL --context ... --users ...", "kv_usage_ratio"),
    Alert("UprightPreempting", "preemptions_per_second", "upright:preemptions_per_second > 0", 5, "warning",
          f"{_WHO} throws requests out of its cache and computes them again",
          "less context or fewer users: upright plan MODEL --context ... --users ..."),
    Alert("UprightErrors", "error_ratio", "upright:error_ratio > {limit}", 2, "critical",
          f"{{{{ $value | humanizePercentage }}}} of the requests to {_WHO} fail (HTTP 5xx)",
          f"upright logs {_WHO}, then upright diagnose {_WHO}", "error_ratio"),
    Alert("UprightSlowFirstToken", "first_token_seconds",
          'upright:first_token_seconds{quantile="0.95"} > {limit}', 5, "warning",
          f"95 % of the first tokens of {_WHO} come within {{{{ $value | humanizeDuration }}}} only",
          f"upright tools top {_WHO}: is it the queue, or long prompts?", "first_token_seconds"),
    Alert("UprightSlowTokens", "token_seconds", 'upright:token_seconds{quantile="0.95"} > {limit}', 5, "warning",
          f"95 % of the tokens of {_WHO} come within {{{{ $value | humanizeDuration }}}} only",
          f"upright tools top {_WHO}: how many requests run at once?", "token_seconds"),
    Alert("UprightAcceptanceCollapse", "acceptance_ratio",
          "upright:acceptance_ratio < {limit} * avg_over_time(upright:acceptance_ratio[1d])", 5, "warning",
          f"{_WHO} accepts {{{{ $value | humanizePercentage }}}} of its guesses, far less than it did",
          f"upright prove {_WHO}: collapsed acceptance is a sign of broken output", "acceptance_drop"),
    Alert("UprightWorkerUnhealthy", "smg_worker_health", "smg_worker_health == 0", 1, "critical",
          f"the router {_WHO} gives worker {{{{ $labels.worker }}}} no traffic", "upright fleet status"),
    Alert("UprightRetriesExhausted", "smg_worker_retries_exhausted_total",
          "sum by (deployment) (rate(smg_worker_retries_exhausted_total[{window}])) > 0", 1, "critical",
          f"the router {_WHO} gave requests up after all its retries", "upright fleet status"),
)  # fmt: skip


def alert_rules(figures: Iterable[str], limits: AlertLimits, window: str) -> Iterator[dict[str, Any]]:
    """Rules for what is recorded; `figures` are names of records without `upright:`, and metrics of the router."""
    there = {"", *figures}
    for alert in _ALERTS:
        if alert.needs in there:
            yield {
                "alert": alert.name,
                "expr": _filled(alert, limits, window),
                "for": prometheus_duration(alert.patience * limits.patience_seconds),
                "labels": {"severity": alert.severity},
                "annotations": {"summary": alert.summary, "next": alert.next},
            }


def _filled(alert: Alert, limits: AlertLimits, window: str) -> str:
    text = alert.expression
    if alert.limit is not None:
        text = text.replace("{limit}", f"{getattr(limits, alert.limit):g}")
    return text.replace("{window}", window).replace("{long}", prometheus_duration(10 * limits.patience_seconds))


def prometheus_duration(value: float) -> str:
    """As Prometheus writes it; it takes no fractions of a second but in ms."""
    return f"{value:.0f}s" if value == int(value) else f"{value * 1000:.0f}ms"
