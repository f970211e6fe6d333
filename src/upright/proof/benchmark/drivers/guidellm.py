"""`guidellm run` <-> its words and its JSON (guidellm 0.8)."""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import Any

from upright.base.errors import ReadError
from upright.engines.facets.bench import BenchTarget, BenchTool, Foreign
from upright.facts.records.benchmark import Shape, Spread
from upright.proof.benchmark.drivers.foreign import pick

_RESULT = "guidellm.json"


def argv(
    program: str, target: BenchTarget, shape: Shape, folder: PurePath, tokenizer: str | None, seed: int
) -> list[str]:
    turns = f",turns={shape.turns}" if shape.turns > 1 else ""
    arguments = [
        program, "run", "--backend", f"kind=openai_http,target={target.base_url},model={target.model}",
        "--profile", f"kind=concurrent,streams={shape.concurrency}",
        "--constraint", f"kind=max_requests,count={shape.requests}",
        "--data", f"kind=synthetic_text,prompt_tokens={shape.prompt_tokens},output_tokens={shape.output_tokens}{turns}",
        "--output", f"kind=json,path={folder / _RESULT}", "--disable-console-interactive", "--random-seed", str(seed),
    ]  # fmt: skip
    if tokenizer is not None:
        arguments += ["--tokenizer", json.dumps({"kind": "hf_auto", "model": tokenizer})]
    return arguments


def recognises(data: Any) -> bool:
    return isinstance(data, dict) and isinstance(data.get("benchmarks"), list)


def read(data: dict[str, Any]) -> list[Foreign]:
    """Its time per output token is latency / tokens, another thing than everybody's: left out, ITL says it better."""
    try:
        return [_one(entry) for entry in data["benchmarks"]]
    except (KeyError, TypeError, ValueError) as error:
        raise ReadError(f"not a result of guidellm: {error!r}") from None


def _one(item: dict[str, Any]) -> Foreign:
    metrics = item["metrics"]
    totals = pick(metrics, "request_totals", default={})
    done, failed = int(totals.get("successful", 0)), int(totals.get("errored", 0))
    prompt, output = _spread(metrics, "prompt_token_count", 1.0), _spread(metrics, "output_token_count", 1.0)
    streams = pick(item, "config", "strategy", "streams") or pick(metrics, "request_concurrency", "successful", "max")
    rates = {
        name: float(pick(metrics, name, "successful", "mean", default=0.0))
        for name in ("output_tokens_per_second", "tokens_per_second", "requests_per_second")
    }
    return Foreign(
        program="guidellm",
        version=None,
        shape=Shape(
            prompt_tokens=round(prompt.mean if prompt else 0),
            output_tokens=round(output.mean if output else 0),
            concurrency=max(1, round(float(streams or 1))),
            requests=done + failed,
        ),
        seconds=float(pick(item, "duration", default=0.0)),
        sent=done + failed,
        succeeded=done,
        output_tokens_per_second=rates["output_tokens_per_second"],
        total_tokens_per_second=rates["tokens_per_second"],
        requests_per_second=rates["requests_per_second"],
        ttft=_spread(metrics, "time_to_first_token_ms"),
        itl=_spread(metrics, "inter_token_latency_ms"),
        tpot=_spread(metrics, "inter_token_latency_ms"),
        latency=_spread(metrics, "request_latency", 1.0),
        prompt=prompt,
        output=output,
        errors={"failed": failed} if failed else {},
    )


def _spread(metrics: dict[str, Any], name: str, factor: float = 0.001) -> Spread | None:
    metric = pick(metrics, name, "successful")
    if not isinstance(metric, dict) or metric.get("mean") is None:
        return None
    quantiles, mean = metric.get("percentiles") or {}, metric["mean"]
    figures = {
        "mean": mean, "low": metric.get("min", mean), "high": metric.get("max", mean),
        "p50": quantiles.get("p50", metric.get("median", mean)), "p90": quantiles.get("p90", mean),
        "p99": quantiles.get("p99", mean),
    }  # fmt: skip
    return Spread(count=int(metric.get("count") or 0), **{key: factor * figure for key, figure in figures.items()})


TOOL = BenchTool("guidellm", "guidellm", argv, _RESULT, recognises, read)
