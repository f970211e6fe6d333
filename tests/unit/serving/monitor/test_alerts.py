"""Each alert fires on its fault and on no other, by `promtool test rules`: from raw metrics to the alert."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.programs import needs
from tests.unit.serving.monitor.targets import target
from upright.serving.monitor.files import MonitorOptions, monitoring_files
from upright.serving.monitor.target import MetricsTarget

VLLM = target("vllm", "0.32.0", speculates=True, name="kimi")
LLAMA = target("llama.cpp", "b11669", name="kimi")
ROUTER = target("smg", "1.13.0", name="kimi")
STEPS = 80
"""Readings, one every 15 s; alerts are weighed after nine minutes, a fall from what was before after fifteen."""

HEALTHY_VLLM = {
    'vllm:num_requests_running{{{}}}': "2+0x{}",
    'vllm:num_requests_waiting{{{}}}': "0+0x{}",
    'vllm:kv_cache_usage_perc{{{}}}': "0.5+0x{}",
    'vllm:num_preemptions_total{{{}}}': "3+0x{}",
    'vllm:iteration_tokens_total_count{{{}}}': "0+100x{}",
    'vllm:generation_tokens_total{{{}}}': "0+600x{}",
    'http_requests_total{{{},status="2xx"}}': "0+15x{}",
    'vllm:time_to_first_token_seconds_bucket{{{},le="0.5"}}': "0+15x{}",
    'vllm:time_to_first_token_seconds_bucket{{{},le="+Inf"}}': "0+15x{}",
    'vllm:inter_token_latency_seconds_bucket{{{},le="0.02"}}': "0+600x{}",
    'vllm:inter_token_latency_seconds_bucket{{{},le="+Inf"}}': "0+600x{}",
    'vllm:spec_decode_num_draft_tokens_total{{{}}}': "0+300x{}",
    'vllm:spec_decode_num_accepted_tokens_total{{{}}}': "0+210x{}",
}  # fmt: skip
HEALTHY_LLAMA = {
    'llamacpp:requests_processing{{{}}}': "1+0x{}",
    'llamacpp:requests_deferred{{{}}}': "0+0x{}",
    'llamacpp:n_decode_total{{{}}}': "0+300x{}",
    'llamacpp:tokens_predicted_total{{{}}}': "0+0x{}",  # counted when the request ends, and it is a long one
}  # fmt: skip
HEALTHY_ROUTER = {
    'smg_worker_health{{{},worker="http://10.0.0.7:8000"}}': "1+0x{}",
    'smg_worker_retries_exhausted_total{{{},worker_type="regular"}}': "4+0x{}",
}  # fmt: skip
UP = "up{{{}}}"


def broken(healthy: dict[str, str], **faults: str) -> dict[str, str]:
    """The healthy series, with those that begin with a name replaced."""
    for name, values in faults.items():
        (series,) = [each for each in healthy if each.partition("{")[0].endswith(name)]
        healthy = {**healthy, series: values}
    return healthy


FIRST = 'vllm:time_to_first_token_seconds_bucket{{{},le="0.5"}}'
LATER = 'vllm:inter_token_latency_seconds_bucket{{{},le="0.02"}}'
FAILED = 'http_requests_total{{{},status="5xx"}}'
CASES: list[tuple[str, MetricsTarget, dict[str, str], set[str]]] = [
    ("a healthy vLLM", VLLM, HEALTHY_VLLM, set()),
    ("a healthy llama.cpp in a long answer", LLAMA, HEALTHY_LLAMA, set()),
    ("a healthy router", ROUTER, HEALTHY_ROUTER, set()),
    ("dead", VLLM, {UP: "1x10 0x{}"}, {"UprightDown"}),
    ("another version than was recorded", VLLM, {}, {"UprightMetricsMissing"}),
    ("stuck", VLLM, broken(HEALTHY_VLLM, iteration_tokens_total_count="500+0x{}"), {"UprightStuck"}),
    ("stuck in llama.cpp", LLAMA, broken(HEALTHY_LLAMA, n_decode_total="500+0x{}"), {"UprightStuck"}),
    ("a queue that grows", VLLM, broken(HEALTHY_VLLM, num_requests_waiting="0+2x{}"), {"UprightQueueGrowing"}),
    ("a queue that shrinks", VLLM, broken(HEALTHY_VLLM, num_requests_waiting="900-3x{}"), set()),
    ("a full cache", VLLM, broken(HEALTHY_VLLM, kv_cache_usage_perc="0.99+0x{}"), {"UprightCacheFull"}),
    ("requests thrown out", VLLM, broken(HEALTHY_VLLM, num_preemptions_total="0+1x{}"), {"UprightPreempting"}),
    ("one request in fifty fails", VLLM, {**HEALTHY_VLLM, FAILED: "0+0.3x{}"}, {"UprightErrors"}),
    ("one in a thousand fails", VLLM, {**HEALTHY_VLLM, FAILED: "0+0.015x{}"}, set()),
    ("slow first tokens", VLLM, {**HEALTHY_VLLM, FIRST: "0+3x{}",
     'vllm:time_to_first_token_seconds_bucket{{{},le="5"}}': "0+15x{}"}, {"UprightSlowFirstToken"}),
    ("slow tokens", VLLM, {**HEALTHY_VLLM, LATER: "0+60x{}",
     'vllm:inter_token_latency_seconds_bucket{{{},le="0.2"}}': "0+600x{}"}, {"UprightSlowTokens"}),
    ("acceptance that falls", VLLM,
     broken(HEALTHY_VLLM, spec_decode_num_accepted_tokens_total="0+210x20 4200+15x{}"), {"UprightAcceptanceCollapse"}),
    ("acceptance that was always low", VLLM,
     broken(HEALTHY_VLLM, spec_decode_num_accepted_tokens_total="0+60x{}"), set()),
    ("a worker without traffic", ROUTER, broken(HEALTHY_ROUTER, smg_worker_health="0+0x{}"),
     {"UprightWorkerUnhealthy"}),
    ("requests given up", ROUTER, broken(HEALTHY_ROUTER, smg_worker_retries_exhausted_total="0+1x{}"),
     {"UprightRetriesExhausted"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("subject", "series", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_the_alert_for_the_fault_and_no_other(
    subject: MetricsTarget, series: dict[str, str], expected: set[str], tmp_path: Path
) -> None:
    minutes = 15 if "UprightAcceptanceCollapse" in expected else 9
    labels = _written(subject, tmp_path)
    inputs = {UP: "1+0x{}"} | series
    given = [{"series": name.format(labels), "values": values.format(STEPS)} for name, values in inputs.items()]
    names = [
        rule["alert"] for rule in yaml.safe_load((tmp_path / "rules/alerts.yml").read_text())["groups"][0]["rules"]
    ]
    firing = [
        {"expr": f'count(ALERTS{{alertname="{name}",alertstate="firing"}}) or vector(0)', "eval_time": f"{minutes}m",
         "exp_samples": [{"labels": "{}", "value": int(name in expected)}]}
        for name in names
    ]  # fmt: skip
    _run({"rule_files": ["rules/*.yml"], "evaluation_interval": "15s",
          "tests": [{"interval": "15s", "input_series": given, "promql_expr_test": firing}]}, tmp_path)  # fmt: skip
    assert expected <= set(names)


def test_ranks_of_a_replica_are_one_and_replicas_add_up(tmp_path: Path) -> None:
    """SGLang's `tp_rank` counts through the replicas of data-parallel attention: only the first has a rank 0."""
    subject = target("sglang", "0.5.23", name="kimi")
    labels = _written(subject, tmp_path)
    ranks = ('dp_rank="0",tp_rank="0"', 'dp_rank="1",tp_rank="4"', 'dp_rank="2",tp_rank="8"', 'dp_rank="2",tp_rank="9"')
    given = [
        {"series": f"{name}{{{labels},{rank}}}", "values": values}
        for rank, running in zip(ranks, (1, 5, 7, 7), strict=True)
        for name, values in (
            ("sglang:num_running_reqs", f"{running}+0x40"),
            ("sglang:realtime_tokens_total", f"0+{15 * running}x40"),
        )
    ]
    expected = {"upright:requests_running": 13, "upright:steps_per_second": 13}
    tests = [
        {"expr": f"sum({name})", "eval_time": "8m", "exp_samples": [{"labels": "{}", "value": value}]}
        for name, value in expected.items()
    ]
    _run({"rule_files": ["rules/*.yml"], "evaluation_interval": "15s",
          "tests": [{"interval": "15s", "input_series": given, "promql_expr_test": tests}]}, tmp_path)  # fmt: skip


def _written(subject: MetricsTarget, folder: Path) -> str:
    """Its files are in the folder; the labels of its series."""
    for path, text in monitoring_files([subject], MonitorOptions(), folder).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return ",".join(f'{name}="{value}"' for name, value in subject.labels.items())


def _run(test: dict[str, Any], folder: Path) -> None:
    needs("promtool")
    file = folder / "test.yml"
    file.write_text(yaml.safe_dump(test))
    done = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
