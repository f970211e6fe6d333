"""The Grafana dashboard: panels are rows, and a row whose figure is not exported is left out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from upright.serving.endpoint.metrics import metric_names

TITLE = "Upright"
UID = "upright-engines"
# Grafana migrates older dashboards when it loads them; 39 is the schema of Grafana 11.0.
# Source: grafana/grafana public/app/features/dashboard/state/DashboardMigrator.ts.
_SCHEMA_VERSION = 39
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_CHOSEN = '{deployment=~"$deployment"}'
_COLUMNS = 24


@dataclass(frozen=True)
class Panel:
    """One panel. `needs` are figures of ours (`x` is `upright:x`) or metrics of the router; all must be there."""

    title: str
    needs: tuple[str, ...]
    queries: tuple[tuple[str, str], ...]
    """Expression and legend; `$chosen` stands for the deployments that the reader chose."""
    unit: str
    about: str
    """`$remark` and `$steps` stand for what the engines say."""
    kind: Literal["timeseries", "stat", "state-timeline"] = "timeseries"
    width: int = 8
    limit: float | None = None
    """From here on it is red."""


def _figure(name: str, legend: str = "{{deployment}}", matcher: str = "") -> tuple[str, str]:
    return (f'upright:{name}{{deployment=~"$deployment"{matcher}}}', legend)


def _quantiles(name: str) -> tuple[tuple[str, str], ...]:
    return (_figure(name, "{{deployment}} p{{quantile}}"),)


def _total(name: str, how: str = "sum") -> tuple[tuple[str, str], ...]:
    return ((f"{how}(upright:{name}{_CHOSEN})", ""),)


_ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    ("Now", (
        Panel("Answering", (), ((f"sum(up{_CHOSEN})", ""),), "none",
              "Engines and routers whose metrics answer.", "stat", 4),
        Panel("Tokens out a second", ("generation_tokens_per_second",), _total("generation_tokens_per_second"),
              "none", "Generated, all together.", "stat", 4),
        Panel("Prompt tokens a second", ("prompt_tokens_per_second",), _total("prompt_tokens_per_second"), "none",
              "Of prompts, found in the cache or computed, all together.", "stat", 4),
        Panel("Running", ("requests_running",), _total("requests_running"), "none", "Requests in the batches.",
              "stat", 4),
        Panel("Waiting", ("requests_waiting",), _total("requests_waiting"), "none", "Requests in the queues.",
              "stat", 4, 1),
        Panel("Fullest cache", ("kv_usage_ratio",), _total("kv_usage_ratio", "max"), "percentunit",
              "Of the deployments that say how full their KV cache is; $remark", "stat", 4, 0.95),
    )),
    ("Throughput", (
        Panel("Tokens out a second", ("generation_tokens_per_second",), (_figure("generation_tokens_per_second"),),
              "none", "$remark"),
        Panel("Prompt tokens a second", ("prompt_tokens_per_second",), (_figure("prompt_tokens_per_second"),),
              "none", "From the cache or computed."),
        Panel("Prompt tokens computed a second", ("computed_tokens_per_second",),
              (_figure("computed_tokens_per_second"),), "none", "What the cache did not have."),
        Panel("Requests running", ("requests_running",), (_figure("requests_running"),), "none", "In the batch."),
        Panel("Requests waiting", ("requests_waiting",), (_figure("requests_waiting"),), "none", "In the queue."),
        Panel("Requests finished a second", ("requests_per_second",), (_figure("requests_per_second"),), "reqps",
              "Came to an end, however."),
        Panel("Steps a second", ("steps_per_second",), (_figure("steps_per_second"),), "none",
              "What moves while an engine works: $steps. 0 with requests running means that it is stuck."),
    )),
    ("Latency", (
        Panel("First token", ("first_token_seconds",), _quantiles("first_token_seconds"), "s",
              "Half of the first tokens come within p0.5, 95 % within p0.95."),
        Panel("Each further token", ("token_seconds",), _quantiles("token_seconds"), "s", "Between two tokens."),
        Panel("Waiting in the queue", ("queue_seconds",), _quantiles("queue_seconds"), "s",
              "Before a request joins the batch."),
        Panel("Whole request", ("request_seconds",), _quantiles("request_seconds"), "s",
              "From its arrival to its last token."),
    )),
    ("Cache", (
        Panel("KV cache in use", ("kv_usage_ratio",), (_figure("kv_usage_ratio"),), "percentunit",
              "Of the fullest replica.", limit=0.95),
        Panel("Found in the cache", ("cached_ratio",), (_figure("cached_ratio"),), "percentunit",
              "Share of the prompt tokens that needed no computing; nothing is drawn while nobody asks."),
        Panel("Thrown out a second", ("preemptions_per_second",), (_figure("preemptions_per_second"),), "none",
              "Requests put back because the cache was full.", limit=0.001),
    )),
    ("Speculation", (
        Panel("Guesses that held", ("acceptance_ratio",), (_figure("acceptance_ratio"),), "percentunit",
              "Of the tokens that the draft guessed. A collapse is a sign of broken output."),
        Panel("Tokens a round", ("accepted_length_tokens",), (_figure("accepted_length_tokens"),), "none",
              "The guesses that held, and the model's own token."),
    )),
    ("Health", (
        Panel("Answering", (), ((f"up{_CHOSEN}", "{{deployment}}"),), "none", "1 while its metrics answer.",
              "state-timeline", 12),
        Panel("Failed requests", ("error_ratio",), (_figure("error_ratio"),), "percentunit",
              "Share that was answered with HTTP 5xx, where the engine counts them.", width=6, limit=0.01),
        Panel("Failed a second", ("errors_per_second",), (_figure("errors_per_second"),), "reqps",
              "Requests answered with HTTP 5xx.", width=6, limit=0.001),
    )),
    ("Router", (
        Panel("Requests a worker has", ("smg_worker_requests_active",),
              ((f"smg_worker_requests_active{_CHOSEN}", "{{worker}}"),), "none", "In flight now."),
        Panel("Requests sent a second", ("smg_worker_requests_total",),
              ((f"sum by (worker) (rate(smg_worker_requests_total{_CHOSEN}[$window]))", "{{worker}}"),), "reqps",
              "To each worker."),
        Panel("Healthy workers", ("smg_worker_health",), ((f"smg_worker_health{_CHOSEN}", "{{worker}}"),), "none",
              "1 while the router gives it traffic.", "state-timeline"),
        Panel("Retries a second", ("smg_worker_retries_total",),
              ((f"sum by (deployment) (rate(smg_worker_retries_total{_CHOSEN}[$window]))", "{{deployment}}"),),
              "reqps", "Requests sent to another worker after a failure."),
        Panel("Given up a second", ("smg_worker_retries_exhausted_total",),
              ((f"sum by (deployment) (rate(smg_worker_retries_exhausted_total{_CHOSEN}[$window]))",
                "{{deployment}}"),), "reqps", "Requests that failed after all retries.", limit=0.001),
    )),
)  # fmt: skip


def dashboard(figures: Collection[str], window: str) -> dict[str, Any]:
    """The dashboard of what these figures can show."""
    panels: list[dict[str, Any]] = []
    top = 0
    for title, row in _ROWS:
        shown = [panel for panel in row if set(panel.needs) <= set(figures)]
        if not shown:
            continue
        panels.append(_row(title, len(panels) + 1, top))
        top = _placed(shown, panels, top + 1, window)
    return {
        "uid": UID,
        "title": TITLE,
        "tags": ["upright"],
        "editable": True,
        "schemaVersion": _SCHEMA_VERSION,
        "refresh": "15s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "graphTooltip": 1,
        "templating": {"list": [_datasource_variable(), _deployment_variable()]},
        "annotations": {"list": [_alert_annotation()]},
        "panels": panels,
    }


def _placed(shown: Sequence[Panel], panels: list[dict[str, Any]], top: int, window: str) -> int:
    """Appends them left to right; returns the first line below them."""
    left = height = 0
    for panel in shown:
        tall = 4 if panel.kind == "stat" else 8
        if left + panel.width > _COLUMNS:
            top, left, height = top + height, 0, 0
        place = {"x": left, "y": top, "w": panel.width, "h": tall}
        panels.append(_panel(panel, len(panels) + 1, place, window))
        left, height = left + panel.width, max(height, tall)
    return top + height


def _row(title: str, number: int, top: int) -> dict[str, Any]:
    place = {"x": 0, "y": top, "w": _COLUMNS, "h": 1}
    return {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}


def _panel(panel: Panel, number: int, place: dict[str, int], window: str) -> dict[str, Any]:
    queries = [
        {
            "refId": chr(ord("A") + position),
            "datasource": _DATASOURCE,
            "expr": expression.replace("$window", window),
            "legendFormat": legend or "__auto",
            "range": True,
        }
        for position, (expression, legend) in enumerate(panel.queries)
    ]
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": _described(panel),
        "datasource": _DATASOURCE,
        "gridPos": place,
        "targets": queries,
        "fieldConfig": {"defaults": _field(panel), "overrides": []},
        "options": _OPTIONS[panel.kind],
    }


def _described(panel: Panel) -> str:
    """With what engines say of this figure (`$remark`), and of what their steps are (`$steps`)."""
    remarks = [known.remarks[name] for known in metric_names() for name in panel.needs if name in known.remarks]
    steps: dict[str, list[str]] = {}
    for known in metric_names():
        if known.steps:
            steps.setdefault(known.steps_are, []).append(known.title)
    moving = ", ".join(f"{what} of {' and '.join(titles)}" for what, titles in steps.items())
    return panel.about.replace("$steps", moving).replace("$remark", " ".join(remarks))


def _field(panel: Panel) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.limit is not None:
        steps.append({"color": "red", "value": panel.limit})
    field: dict[str, Any] = {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}}
    if panel.unit == "percentunit":
        field |= {"min": 0, "max": 1}
    if panel.kind == "state-timeline":
        options = {"0": {"text": "no", "color": "red", "index": 0}, "1": {"text": "yes", "color": "green", "index": 1}}
        field["mappings"] = [{"type": "value", "options": options}]
    if panel.kind == "timeseries":
        field["min"] = 0
        field["custom"] = {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "spanNulls": False}
    return field


_OPTIONS: dict[str, dict[str, Any]] = {
    "timeseries": {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "stat": {
        "reduceOptions": {"values": False, "calcs": ["lastNotNull"], "fields": ""},
        "orientation": "auto",
        "textMode": "auto",
        "colorMode": "value",
        "graphMode": "area",
        "justifyMode": "auto",
    },
    "state-timeline": {
        "showValue": "never",
        "rowHeight": 0.9,
        "mergeValues": True,
        "alignValue": "left",
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "single", "sort": "none"},
    },
}


def _datasource_variable() -> dict[str, Any]:
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "refresh": 1}


def _deployment_variable() -> dict[str, Any]:
    question = 'label_values(up{deployment!=""}, deployment)'
    return {
        "name": "deployment",
        "label": "Deployment",
        "type": "query",
        "datasource": _DATASOURCE,
        "query": {"query": question, "refId": "deployments"},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".+",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "sort": 1,
    }


def _alert_annotation() -> dict[str, Any]:
    return {
        "name": "Alerts",
        "datasource": _DATASOURCE,
        "enable": True,
        "iconColor": "red",
        "expr": 'ALERTS{alertstate="firing",deployment=~"$deployment"}',
    }
