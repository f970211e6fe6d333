"""What `monitor` writes is accepted by Prometheus' own tool and by Grafana's own types, for every recorded version."""

from __future__ import annotations

import json
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models import units
from grafana_foundation_sdk.models.dashboard import Dashboard

from tests.programs import needs
from tests.unit.serving.monitor.targets import ENGINES, KEY, everything, target
from upright.base.errors import UsageError
from upright.facts.catalog.recorded_metrics import nearest_metrics, recorded_versions
from upright.serving.monitor.alerts import AlertLimits
from upright.serving.monitor.files import DASHBOARD, MonitorOptions, monitoring_files
from upright.serving.monitor.recording_rules import rules_for
from upright.serving.monitor.target import MetricsTarget

RECORDED = Path(__file__).parents[3] / "recordings/metrics"
METRIC = re.compile(r"\b(?:vllm:|sglang:|llamacpp:|smg_|http_requests)\w+")
register_default_plugins()


def write(targets: list[MetricsTarget], folder: Path, wishes: MonitorOptions | None = None) -> None:
    _write(monitoring_files(targets, wishes or MonitorOptions(), folder), folder)


def _write(files: dict[str, str], folder: Path) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


@cache
def mixed() -> dict[str, str]:
    return monitoring_files(everything(), MonitorOptions(alertmanagers=("127.0.0.1:9093",)), Path("/monitoring"))


def promtool(*words: str | Path) -> subprocess.CompletedProcess[str]:
    needs("promtool")
    return subprocess.run(["promtool", *map(str, words)], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("engine", ENGINES)
def test_promtool_accepts_one_engine(engine: str, tmp_path: Path) -> None:
    write([target(engine, speculates=True)], tmp_path)
    done = promtool("check", "config", tmp_path / "prometheus.yml")
    assert done.returncode == 0, done.stderr
    assert "2 rule files found" in done.stdout


def test_promtool_accepts_a_mixed_fleet_of_every_version(tmp_path: Path) -> None:
    _write(mixed(), tmp_path)
    done = promtool("check", "config", tmp_path / "prometheus.yml")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("each", everything(), ids=lambda each: each.name)
def test_a_rule_uses_only_what_that_version_exports(each: MetricsTarget) -> None:
    used = {name for rule in rules_for(each, "60s") for name in METRIC.findall(rule.expression)}
    assert used
    assert all(name in each.metrics for name in used), sorted(name for name in used if name not in each.metrics)


def test_one_set_of_rules_however_many_boxes(tmp_path: Path) -> None:
    few = monitoring_files([target("vllm", name=f"box-{n}") for n in range(2)], MonitorOptions(), tmp_path)
    many = monitoring_files([target("vllm", name=f"box-{n}") for n in range(500)], MonitorOptions(), tmp_path)
    assert {path for path in few if few[path] != many[path]} == {"targets/upright.json"}
    assert len(json.loads(many["targets/upright.json"])) == 500


def test_no_panel_for_a_figure_that_is_not_there(tmp_path: Path) -> None:
    def titles(*targets: MetricsTarget) -> set[str]:
        files = monitoring_files(list(targets), MonitorOptions(), tmp_path)
        return {panel["title"] for panel in json.loads(files[DASHBOARD])["panels"]}

    llama, vllm = titles(target("llama.cpp")), titles(target("vllm"))
    assert "First token" in vllm - llama, "llama.cpp has no histogram"
    assert "KV cache in use" in vllm - llama
    assert "Guesses that held" not in llama | vllm, "nobody speculates"
    assert "Guesses that held" in titles(target("llama.cpp", speculates=True))
    assert "Router" in titles(target("smg"), target("vllm")) - vllm
    assert vllm <= titles(target("llama.cpp"), target("vllm")), "one that lacks a figure takes it from no other"


def test_no_alert_on_a_figure_that_is_not_there(tmp_path: Path) -> None:
    def names(*targets: MetricsTarget) -> set[str]:
        rules = yaml.safe_load(monitoring_files(list(targets), MonitorOptions(), tmp_path)["rules/alerts.yml"])
        return {rule["alert"] for rule in rules["groups"][0]["rules"]}

    assert names(target("llama.cpp")) == {"UprightDown", "UprightMetricsMissing", "UprightStuck", "UprightQueueGrowing"}
    assert names(target("vllm")) >= {"UprightCacheFull", "UprightErrors", "UprightSlowFirstToken", "UprightPreempting"}
    assert "UprightAcceptanceCollapse" in names(target("vllm", speculates=True)) - names(target("vllm"))
    assert {"UprightWorkerUnhealthy", "UprightRetriesExhausted"} <= names(target("smg"))


def test_grafana_knows_every_field_and_loses_none() -> None:
    """Parsed by the types that Grafana publishes for 11.6 and written again: what it does not know would be gone."""
    ours = json.loads(mixed()[DASHBOARD])
    back = json.loads(JSONEncoder().encode(Dashboard.from_json(ours)))
    assert list(_lost(ours, back)) == []
    assert list(_lost({**ours, "panells": []}, back)) == [".panells"], "the comparison can fail"
    known = {value for name, value in vars(units).items() if isinstance(value, str) and not name.startswith("__")}
    assert {panel["fieldConfig"]["defaults"]["unit"] for panel in ours["panels"] if "fieldConfig" in panel} <= known


def test_panels_do_not_overlap() -> None:
    panels = json.loads(mixed()[DASHBOARD])["panels"]
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        x, y, w, h = (panel["gridPos"][side] for side in "xywh")
        cells = {(column, line) for column in range(x, x + w) for line in range(y, y + h)}
        assert x + w <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_keys_are_named_by_their_file_and_only_where_the_engine_wants_one(tmp_path: Path) -> None:
    targets = [target("vllm"), target("sglang"), target("smg"), target("llama.cpp"), target("ik_llama.cpp")]
    jobs = yaml.safe_load(monitoring_files(targets, MonitorOptions(), tmp_path)["prometheus.yml"])["scrape_configs"]
    assert [(job["job_name"], job.get("authorization")) for job in jobs] == [
        ("upright", None),
        ("upright-llama-cpp", {"credentials_file": str(KEY)}),
    ]


def test_limits_and_patience_reach_the_rules(tmp_path: Path) -> None:
    wishes = MonitorOptions(0.5, AlertLimits(patience_seconds=1.5, first_token_seconds=3.25))
    write([target("vllm")], tmp_path, wishes)
    rules = {
        each["alert"]: each
        for each in yaml.safe_load((tmp_path / "rules/alerts.yml").read_text())["groups"][0]["rules"]
    }
    assert rules["UprightDown"]["for"] == "1500ms"
    assert rules["UprightSlowFirstToken"]["expr"] == 'upright:first_token_seconds{quantile="0.95"} > 3.25'
    assert promtool("check", "config", tmp_path / "prometheus.yml").returncode == 0


@pytest.mark.parametrize("page", sorted(RECORDED.glob("*.txt")), ids=lambda page: page.stem)
def test_what_an_engine_was_seen_to_export_is_recorded(page: Path) -> None:
    engine, _, version = page.stem.rpartition("-")
    known = nearest_metrics(engine, version)
    assert known is not None
    assert known.version == version
    seen = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page.read_text(), re.MULTILINE))
    assert {name: kind for name, kind in seen.items() if known.types.get(name) != kind} == {}


def test_versions_differ_as_their_sources_do() -> None:
    assert recorded_versions("vllm")[0] == "0.18.0"
    old, new = nearest_metrics("vllm", "0.18.0"), nearest_metrics("vllm", "0.32.0")
    assert old is not None
    assert new is not None
    assert "vllm:admission_rejections_total" in new
    assert "vllm:admission_rejections_total" not in old
    assert "vllm:time_to_first_token_seconds_bucket" in old
    assert "vllm:time_to_first_token_seconds" not in old, "a histogram has no series of its own name"
    with pytest.raises(UsageError, match="nobody recorded"):
        _ = MetricsTarget("x", "no-engine", None, "m", "127.0.0.1:1").metrics


def _lost(ours: Any, back: Any, path: str = "") -> Any:
    if isinstance(ours, dict):
        for name, value in ours.items():
            yield from _lost(value, back[name], f"{path}.{name}") if name in back else [f"{path}.{name}"]
    elif isinstance(ours, list):
        for number, value in enumerate(ours):
            yield from _lost(value, back[number], f"{path}[{number}]") if number < len(back) else [path]
    elif ours != back:
        yield path
