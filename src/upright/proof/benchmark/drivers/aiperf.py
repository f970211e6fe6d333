"""`aiperf profile` <-> its words and its `profile_export_aiperf.json` (schema 1.4, aiperf 0.13)."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from upright.base.errors import ReadError
from upright.engines.facets.bench import BenchTarget, BenchTool, Foreign
from upright.facts.records.benchmark import Shape, Spread
from upright.proof.benchmark.drivers.foreign import pick


def argv(
    program: str, target: BenchTarget, shape: Shape, folder: PurePath, tokenizer: str | None, seed: int
) -> list[str]:
    arguments = [
        program, "profile", "-m", target.model, "--url", target.base_url, "--streaming",
        "--endpoint-type", "chat" if target.api == "chat" else "completions", "--use-server-token-count",
        "--isl", str(shape.prompt_tokens), "--osl", str(shape.output_tokens), "--concurrency", str(shape.concurrency),
        "--random-seed", str(seed), "--no-gpu-telemetry", "--no-server-metrics", "--ui", "none",
        "--artifact-dir", str(folder), "--extra-inputs", "ignore_eos:true",
    ]  # fmt: skip
    if shape.turns > 1:
        arguments += ["--num-conversations", str(shape.requests), "--conversation-turn-mean", str(shape.turns)]
        arguments += ["--conversation-turn-stddev", "0"]
    else:
        arguments += ["--request-count", str(shape.requests)]
    if tokenizer is not None:
        arguments += ["--tokenizer", tokenizer]
    if shape.requests_per_second is not None:
        arguments += ["--request-rate", f"{shape.requests_per_second:g}", "--request-rate-mode", "poisson"]
    return arguments


def recognises(data: Any) -> bool:
    return isinstance(data, dict) and "time_to_first_token" in data and "output_token_throughput" in data


def read(data: dict[str, Any]) -> list[Foreign]:
    """aiperf ends well with failed requests: they are read from its summary of errors."""
    try:
        done = int(pick(data, "request_count", "avg", default=0))
        errors = {_kind(failure): int(failure["count"]) for failure in data.get("error_summary") or ()}
        sent = done + sum(errors.values())
        rate = data["output_token_throughput"]["avg"]
        ttft = _spread(data, "time_to_first_token", done)
        reached = pick(data, "effective_concurrency", "max", default=0)
        asked = _asked(data)
        prompt = _spread(data, "input_sequence_length", done, 1.0)
        output = _spread(data, "output_sequence_length", done, 1.0)
        shape = Shape(
            prompt_tokens=asked.get("isl") or round(prompt.mean if prompt else 0),
            output_tokens=asked.get("osl") or round(output.mean if output else 0),
            concurrency=asked.get("concurrency") or max(1, round(reached)),
            requests=sent,
        )
        seconds = pick(data, "benchmark_duration", "avg", default=None)
        if seconds is None:
            seconds = done / data["request_throughput"]["avg"]
        total = pick(data, "total_token_throughput", "avg", default=None)
        if total is None:
            total = rate + (prompt.mean * done / seconds if prompt else 0.0)
        return [
            Foreign(
                program="aiperf", version=pick(data, "aiperf_version"), shape=shape, seconds=seconds, sent=sent,
                succeeded=done, output_tokens_per_second=rate, total_tokens_per_second=total,
                requests_per_second=data["request_throughput"]["avg"], ttft=ttft,
                itl=_spread(data, "inter_chunk_latency", done) or _spread(data, "inter_token_latency", done),
                tpot=_spread(data, "inter_token_latency", done), latency=_spread(data, "request_latency", done),
                prompt=prompt, output=output, in_flight_peak=round(reached), errors=errors,
                at=str(data.get("start_time", "")),
            )
        ]  # fmt: skip
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise ReadError(f"not a result of aiperf: {error!r}") from None


def _asked(data: dict[str, Any]) -> dict[str, int]:
    """What its own copy of the command line says was asked for."""
    arguments = str(pick(data, "run_info", "cli_command", default="")).replace("=", " ").split()
    settings = {}
    for name in ("isl", "osl", "concurrency"):
        flag = f"--{name}"
        if flag in arguments and arguments[arguments.index(flag) + 1].strip("'\"").isdigit():
            settings[name] = int(arguments[arguments.index(flag) + 1].strip("'\""))
    return settings


def _kind(item: dict[str, Any]) -> str:
    details = item.get("error_details") or item
    code = details.get("code")
    return f"HTTP {code}" if code else str(details.get("type") or "failed")


def _spread(data: dict[str, Any], name: str, count: int, factor: float = 0.001) -> Spread | None:
    metric = data.get(name)
    if not isinstance(metric, dict) or metric.get("avg") is None:
        return None
    mean = metric["avg"]
    figures = {
        "mean": mean, "low": metric.get("min", mean), "high": metric.get("max", mean),
        "p50": metric.get("p50", mean), "p90": metric.get("p90", mean), "p99": metric.get("p99", mean),
    }  # fmt: skip
    return Spread(count=count, **{key: factor * figure for key, figure in figures.items()})


TOOL = BenchTool("aiperf", "aiperf", argv, "profile_export_aiperf.json", recognises, read)
