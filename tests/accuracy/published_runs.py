"""A published measurement -> the `upright plan` command that a person would type for it, and what it answers."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from upright.app.cli.main import cli
from upright.facts import catalog
from upright.facts.catalog.rows.words import MeasurementRow
from upright.planning.speed.assumed_bandwidth import processor_row

STATED = Path(__file__).with_name("published_runs_stated.csv")
EVERY = 17
# Benchmarks that send all users one prompt: the engine keeps and reads it once, and what they call 64 users at 131,072
# tokens is more than the pool holds. A plan is for users with contexts of their own.
_ONE_PROMPT = "benchmarks/inference-throughput/"
_PARALLEL = re.compile(r"\bTP(\d+)(?: DCP(\d+))?")
_WHOLE_EXPERTS = re.compile(r"\bEP([2-9]|\d\d)")
_BOXES = {"gb10": "dgx-spark", "none": "cpu"}
_BATCH = re.compile(r"\bubatch (\d+)")
_REPACKED = re.compile(r"-?rtr\b(?! 0)")
_UBATCH = 2048
"""What llama-bench reads at depth 0 in these runs."""


@dataclass(frozen=True)
class Answered:
    """What the page says of one run: a band, or nothing."""

    row: MeasurementRow
    low: float | None
    best: float | None
    high: float | None
    why: str = ""
    """Why nothing is known, or what the band rests on."""

    @property
    def known(self) -> bool:
        return self.low is not None

    @property
    def measured(self) -> float:
        row = self.row
        if row.kind == "aggregate" and row.tpot_ms:
            return 1e3 * (row.concurrency or 1) / row.tpot_ms
        return row.decode_tokens_per_second or row.prefill_tokens_per_second or 0.0

    @property
    def inside(self) -> bool:
        return self.low is not None and self.high is not None and self.low <= self.measured <= self.high

    @property
    def error(self) -> float | None:
        return None if self.best is None else abs(self.best / self.measured - 1)


def published() -> list[MeasurementRow]:
    """Runs that were gathered as they were published, of users with contexts of their own."""
    return [row for row in catalog.measurements() if row.id.startswith("s") and not one_prompt(row)]


def sampled() -> list[MeasurementRow]:
    return published()[::EVERY]


def one_prompt(row: MeasurementRow) -> bool:
    shared = (row.concurrency or 1) > 1 and (row.context_tokens or 0) > 0
    return shared and any(_ONE_PROMPT in source for source in row.sources)


def repacked(row: MeasurementRow) -> bool:
    """A prompt that the processor read: experts were interleaved at start, which no recipe does and no plan knows."""
    return row.prefill_tokens_per_second is not None and _REPACKED.search(row.notes or "") is not None


def argv(row: MeasurementRow) -> list[str]:
    """With what the author says of the run, and nothing that only we would know."""
    count, prompt = row.gpu_count or 1, row.prefill_tokens_per_second is not None
    box = _BOXES.get(row.gpu) if count == 1 or row.gpu == "none" else None
    least = _UBATCH if prompt and row.engine == "llama.cpp" and not row.context_tokens else 0
    context = max(least, row.context_tokens or 0) * (2 if prompt else 1)
    context = max(1024, context)
    words = ["plan", _model(row), "--box", box or f"{count}x-{row.gpu}", "--engine", row.engine.partition("-fork")[0]]
    words += ["--context", str(context), "--users", str(row.concurrency or 1)]
    spread = _PARALLEL.search(row.parallelism or "")
    if spread and int(spread[1]) > 1:
        words += ["--tp", spread[1], "--dcp", spread[2] or "1"]
    if _WHOLE_EXPERTS.search(row.parallelism or ""):
        words += ["--expert-parallel"]
    kv = row.kv_dtype or ""
    if kv in ("fp8", "bf16", "f16", "q8_0", "fp8_e4m3"):
        words += ["--kv-dtype", kv]
    if batch := _BATCH.search(row.notes or ""):
        words += ["--ubatch", batch[1]]
    if row.speculation not in (None, "none"):
        words += ["--draft", *(["--acceptance", str(row.acceptance)] if row.acceptance else [])]
    return [*words, *_system_ram(row), "--json"]


def _system_ram(row: MeasurementRow) -> list[str]:
    """As its owner states it: GB/s, else the processor; the amount, else plenty."""
    processor = (row.cpu or "").partition(",")[0]
    stated = row.host_bandwidth.partition(" ")[0] if row.host_bandwidth else processor
    if (channels := re.search(r"\d+ channels DDR\d-\d+", row.cpu or "")) and "measured" not in (
        row.host_bandwidth or ""
    ):
        stated = channels[0]
    if not row.host_bandwidth and processor_row(processor) is None:
        return []
    modules = re.search(r"(?:(\d+)x)?(\d+) GB(?!/s)", row.cpu or "")
    amount = f"{int(modules[1] or 1) * int(modules[2])}GB" if modules else "512"
    return ["--host-bandwidth", stated, "--host-memory", amount]


_FILES = {
    "ggml-org/Qwen3-Coder-30B-A3B-Instruct-Q8_0": "unsloth/Qwen3-Coder-30B-A3B-Instruct-GGUF:Q8_0",
    "ggml-org/gpt-oss-120b-GGUF": "ggml-org/gpt-oss-120b-GGUF:MXFP4_MOE",
    "ggml-org/gpt-oss-20b-GGUF": "ggml-org/gpt-oss-20b-GGUF:MXFP4_MOE",
    "unsloth UD-Q2_K_XL": "unsloth/DeepSeek-R1-GGUF:UD-Q2_K_XL",
    "ubergarm IQ2_K_R4": "ubergarm/DeepSeek-V3-0324-GGUF:IQ2_K_R4",
    "ubergarm Q2_K_R4": "ubergarm/DeepSeek-R1-GGUF:Q2_K_R4",
    "ubergarm mix-IQ3_K": "ubergarm/Qwen3-235B-A22B-GGUF:mix-IQ3_K",
    "Q8_0": "unsloth/Qwen3-235B-A22B-GGUF:Q8_0",
    "unsloth Q8_0": "unsloth/Qwen3-235B-A22B-GGUF:Q8_0",
}


def _model(row: MeasurementRow) -> str:
    """The repository; of a GGUF with the quantisation, as people name one."""
    stated = row.artifact or ""
    for known, name in _FILES.items():
        if stated == known or stated.startswith(f"{known} "):
            return name
    named = stated.split(" ")[0]
    return named if "/" in named else row.model


def ask(row: MeasurementRow) -> Answered:
    if repacked(row):
        return Answered(row, None, None, None, "prompts: not known of experts interleaved at start (-rtr)")
    done = CliRunner().invoke(cli, argv(row))
    if done.exception is not None and not done.stdout.startswith("{"):
        return Answered(row, None, None, None, f"error: {done.exception}"[:120])
    if not done.stdout.startswith("{"):
        return Answered(row, None, None, None, (done.stderr or done.stdout).strip().splitlines()[0][:120])
    plans = json.loads(done.stdout)["plans"]
    if not plans:
        return Answered(row, None, None, None, "no plan")
    plan = plans[0]
    speed, users = plan.get("speed"), row.concurrency or 1
    if not speed:
        notes = [note["message"] for note in plan["notes"] if note["code"] == "speed-unknown"]
        no = [objection["message"] for objection in plan["objections"]]
        return Answered(row, None, None, None, (notes or no or ["no speed"])[0])
    if row.prefill_tokens_per_second is not None:
        rate, factor = speed["prompt"], 1
    else:
        rate, factor = speed["full" if row.context_tokens else "empty"], users
    if rate is None:
        return Answered(row, None, None, None, "prompts: not known")
    best = None if rate["best"] is None else rate["best"] * factor
    return Answered(row, rate["low"] * factor, best, rate["high"] * factor, speed["basis"])
