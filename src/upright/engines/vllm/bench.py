"""`vllm bench serve` <-> its words and its result file (keys of vLLM 0.32)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from upright.base.errors import ReadError
from upright.engines.facets.bench import BenchTarget, BenchTool, Foreign
from upright.facts.records.benchmark import Shape, Spread
from upright.facts.records.spreads import spread_of

_RESULT = "result.json"


def argv(
    program: str, target: BenchTarget, shape: Shape, folder: PurePath, tokenizer: str | None, seed: int
) -> list[str]:
    chat = target.api == "chat"
    arguments = [
        program, "bench", "serve", "--backend", "openai-chat" if chat else "openai",
        "--endpoint", target.path, "--base-url", target.base_url, "--model", target.model,
        "--dataset-name", "random", "--random-input-len", str(shape.prompt_tokens),
        "--random-output-len", str(shape.output_tokens), "--num-prompts", str(shape.requests),
        "--max-concurrency", str(shape.concurrency), "--ignore-eos", "--seed", str(seed),
        "--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "50,90,99",
        "--save-result", "--save-detailed", "--result-dir", str(folder), "--result-filename", _RESULT,
        "--disable-tqdm",
    ]  # fmt: skip
    if tokenizer is not None:
        arguments += ["--tokenizer", tokenizer]
    if shape.requests_per_second is not None:
        arguments += ["--request-rate", f"{shape.requests_per_second:g}"]
    return arguments


def recognises(data: Any) -> bool:
    return isinstance(data, dict) and {"total_input_tokens", "output_throughput", "mean_ttft_ms"} <= data.keys()


def read(data: dict[str, Any]) -> list[Foreign]:
    """Percentiles come from the details if they were saved, else from the summary."""
    try:
        done, failed = int(data["completed"]), int(data.get("failed") or 0)
        streams = int(data.get("max_concurrency") or data["num_prompts"])
        shape = Shape(
            prompt_tokens=round(data["total_input_tokens"] / max(done, 1)),
            output_tokens=round(data["total_output_tokens"] / max(done, 1)),
            concurrency=streams,
            requests=int(data["num_prompts"]),
        )
        why = [_last_words(text) for text in data.get("errors") or ()]
        gaps = [gap for stream in _of_successes(data, "itls", why) for gap in stream]
        ttfts, latencies = _of_successes(data, "ttfts", why), _of_successes(data, "latencies", why)
        prompts, outputs = _of_successes(data, "input_lens", why), _of_successes(data, "output_lens", why)
        return [
            Foreign(
                program="vllm bench serve",
                version=None,
                shape=shape,
                seconds=data["duration"],
                sent=int(data["num_prompts"]),
                succeeded=done,
                output_tokens_per_second=data["output_throughput"],
                total_tokens_per_second=data["total_token_throughput"],
                requests_per_second=data["request_throughput"],
                peak_tokens_per_second=data.get("max_output_tokens_per_s"),
                ttft=spread_of(ttfts) if ttfts else _summary(data, "ttft", done),
                tpot=_summary(data, "tpot", done),
                itl=spread_of(gaps) if gaps else _summary(data, "itl", done),
                latency=spread_of(latencies) if latencies else _summary(data, "e2el", done),
                prompt=spread_of(prompts) if prompts else None,
                output=spread_of(outputs) if outputs else None,
                errors=Counter(filter(None, why)) or ({"failed": failed} if failed else {}),
                at=str(data.get("date", "")),
            )
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise ReadError(f"not a result of vllm bench serve: {error!r}") from None


def _of_successes(data: dict[str, Any], name: str, why: Sequence[str]) -> list[Any]:
    """The details have a row for every request, of zeros if it failed."""
    details = data.get(name) or []
    return [detail for detail, error in zip(details, why, strict=True) if not error] if why else details


def _last_words(text: str) -> str:
    """Of a traceback, or of what the server said; short enough for a row."""
    lines = text.strip().splitlines()
    return lines[-1].strip()[:80] if lines else ""


def _summary(data: dict[str, Any], name: str, count: int) -> Spread | None:
    """What the summary has; least and greatest are not in it, so the median and p99 stand for them."""
    mean = data.get(f"mean_{name}_ms")
    if mean is None:
        return None
    p50 = data.get(f"p50_{name}_ms", data.get(f"median_{name}_ms", mean))
    p99 = data.get(f"p99_{name}_ms", p50)
    p90 = data.get(f"p90_{name}_ms", p99)
    return Spread(
        count=count, mean=mean / 1000, low=p50 / 1000, p50=p50 / 1000, p90=p90 / 1000, p99=p99 / 1000, high=p99 / 1000
    )


TOOL = BenchTool("vllm", "vllm", argv, _RESULT, recognises, read)
