"""The files of a Prometheus and a Grafana for these targets, by path. Nothing is read or written here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from upright.base.yaml12 import to_yaml
from upright.planning.rendering.container import ROUTER
from upright.serving.monitor.alerts import AlertLimits, alert_rules, prometheus_duration
from upright.serving.monitor.dashboard import dashboard
from upright.serving.monitor.recording_rules import Rule, rules_for
from upright.serving.monitor.target import MetricsTarget

DASHBOARD = "grafana/dashboards/upright.json"
_HEAD = "# Written by `upright tools monitor`: write it again when a deployment comes, goes or changes its version.\n"


@dataclass(frozen=True)
class MonitorOptions:
    """What a person decides about the watching."""

    every_seconds: float = 15
    """How often Prometheus asks, and weighs its rules."""
    limits: AlertLimits = field(default_factory=AlertLimits)
    alertmanagers: Sequence[str] = ()
    """host:port of each."""

    @property
    def window(self) -> str:
        """Of rates: four readings, so that one lost reading leaves no hole."""
        return prometheus_duration(max(4 * self.every_seconds, 10))


def monitoring_files(targets: Sequence[MetricsTarget], wishes: MonitorOptions, folder: Path) -> dict[str, str]:
    """Path -> text. `folder` is where they will lie: Grafana wants to be told."""
    rules = all_recording_rules(targets, wishes.window)
    figures = {rule.record.removeprefix("upright:") for rule in rules} | router_metrics(targets)
    return {
        "prometheus.yml": _HEAD + to_yaml(prometheus_config(targets, wishes)),
        **{path: json.dumps(content, indent=2) + "\n" for path, content in target_files(targets).items()},
        "rules/recording.yml": _HEAD + to_yaml(_group("upright-figures", map(_recording, rules), wishes)),
        "rules/alerts.yml": _HEAD
        + to_yaml(_group("upright-alerts", alert_rules(figures, wishes.limits, wishes.window), wishes)),
        DASHBOARD: json.dumps(dashboard(figures, wishes.window), indent=2) + "\n",
        "grafana/provisioning/datasources/upright.yml": to_yaml(_datasource()),
        "grafana/provisioning/dashboards/upright.yml": to_yaml(_provider(folder / "grafana/dashboards")),
    }


def all_recording_rules(targets: Sequence[MetricsTarget], window: str) -> list[Rule]:
    """One set of rules for each version of each engine, however many boxes run it."""
    kinds: dict[tuple[str, str, bool], MetricsTarget] = {}
    for target in targets:
        kinds.setdefault((target.software, target.metrics.version, target.speculates), target)
    distinct_rules = {rule: None for target in kinds.values() for rule in rules_for(target, window)}
    return sorted(distinct_rules, key=lambda rule: (rule.record, rule.labels, rule.expression))


def router_metrics(targets: Sequence[MetricsTarget]) -> set[str]:
    """What the routers among them export; their panels and alerts use its own names."""
    return {name for target in targets if target.software == ROUTER for name in target.metrics.types}


def prometheus_config(targets: Sequence[MetricsTarget], wishes: MonitorOptions) -> dict[str, Any]:
    """prometheus.yml: a job for all that answer everybody, and one for each key."""
    every = prometheus_duration(wishes.every_seconds)
    content: dict[str, Any] = {
        "global": {"scrape_interval": every, "evaluation_interval": every},
        "rule_files": ["rules/*.yml"],
        "scrape_configs": [_job(name, group) for name, group in _jobs(targets).items()],
    }
    if wishes.alertmanagers:
        content["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": list(wishes.alertmanagers)}]}]}
    return content


def target_files(targets: Sequence[MetricsTarget]) -> dict[str, list[dict[str, Any]]]:
    """Prometheus reads these again by itself when they change."""
    return {
        f"targets/{name}.json": [{"targets": [target.address], "labels": target.labels} for target in group]
        for name, group in _jobs(targets).items()
    }


def _jobs(targets: Sequence[MetricsTarget]) -> dict[str, list[MetricsTarget]]:
    """Job -> its targets: those with the same key, path and scheme; one deployment's job has its name."""
    groups: dict[tuple[str, ...], list[MetricsTarget]] = {}
    for target in targets:
        groups.setdefault((str(target.key_file or ""), target.path, target.scheme), []).append(target)
    jobs: dict[str, list[MetricsTarget]] = {}
    for (key_file, path, scheme), group in groups.items():
        name = "upright" if not key_file else f"upright-{group[0].name}"
        if name in jobs:
            name += f"-{hashlib.sha256(f'{key_file} {path} {scheme}'.encode()).hexdigest()[:6]}"
        jobs[name] = group
    return jobs


def _job(name: str, group: Sequence[MetricsTarget]) -> dict[str, Any]:
    first = group[0]
    job: dict[str, Any] = {"job_name": name, "metrics_path": first.path, "scheme": first.scheme}
    if first.key_file is not None:
        job["authorization"] = {"credentials_file": str(first.key_file)}
    return {**job, "file_sd_configs": [{"files": [f"targets/{name}.json"]}]}


def _recording(rule: Rule) -> dict[str, Any]:
    labels: Mapping[str, Any] = {"labels": dict(rule.labels)} if rule.labels else {}
    return {"record": rule.record, "expr": rule.expression, **labels}


def _group(name: str, rules: Iterable[dict[str, Any]], wishes: MonitorOptions) -> dict[str, Any]:
    return {"groups": [{"name": name, "interval": prometheus_duration(wishes.every_seconds), "rules": list(rules)}]}


def _datasource() -> dict[str, Any]:
    source = {"name": "Prometheus", "type": "prometheus", "access": "proxy", "url": "http://127.0.0.1:9090"}
    return {"apiVersion": 1, "datasources": [{**source, "isDefault": True}]}


def _provider(folder: Path) -> dict[str, Any]:
    options = {"path": str(folder)}
    return {"apiVersion": 1, "providers": [{"name": "upright", "type": "file", "options": options}]}
