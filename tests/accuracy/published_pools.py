"""A published start -> the `upright plan` command that a person would type for it, and the pool that it states."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from upright.app.cli.main import cli
from upright.base.units import GB
from upright.engines.vllm.budget import own_sequences as vllm_own_sequences
from upright.facts import catalog

ROWS = Path(__file__).with_name("published_pools.csv")
LATER = ROWS.with_name("published_pools_later.csv")
"""Gathered when the reserve was one figure for all models, and planned for the first time against its causes."""
STATED = ROWS.with_name("published_pools_stated.csv")
_BOXES = {"gb10": "dgx-spark"}
_RELEASE = re.compile(r"(?<![\d.])0\.\d+(?:\.\d+)?")
_WHOLE_EXPERTS = re.compile(r"\bEP\d*\b")
_STATED_TYPE = re.compile(r"(?:bf|f|q|fp|nvfp|auto)[\w]*")
_SHORT = {"pool-too-small", "weights-too-large", "nothing-left-outside", "host-memory-too-small", "does-not-fit"}
_DOUBTS = {"tight", "little-outside", "smaller-cache", "lower-bound"}
# Formats that a row states in words, and the repository that has them.
_STATED_FORMATS = {
    "zai-org/GLM-5.3-Flash FP8": "zai-org/GLM-5.3-Flash-FP8",
    "AutoRound INT4": "Intel/Qwen3.6-35B-A3B-int4-AutoRound",
    "nvidia NVFP4": "nvidia/Qwen3.6-35B-A3B-NVFP4",
    "unsloth Q6_K 179.754 GiB": "unsloth/Qwen3-235B-A22B-GGUF:Q6_K",
    "mix-IQ3_K 106.830 GiB": "ubergarm/Qwen3-235B-A22B-GGUF:mix-IQ3_K",
    "Q8_0 232.769 GiB": "unsloth/Qwen3-235B-A22B-GGUF:Q8_0",
}


@dataclass(frozen=True)
class Start:
    """One row: what was started, and what it said."""

    row: dict[str, str]

    @property
    def name(self) -> str:
        return self.row["id"]

    @property
    def died(self) -> bool:
        return self.row["fits"] == "no"

    @property
    def pool_tokens(self) -> int | None:
        """As printed; None of what died, and of what was told how large its cache is: llama.cpp, and a pinned pool;
        nor where the row says that the pool is of other settings, or nothing of how the model was split.
        """
        told = self.row["engine"].endswith("llama.cpp") or self.pinned
        unlike = "for bytes per token only" in self.row["note"] or not self.row["tensor"]
        return None if told or unlike or not self.row["pool_tokens"] else int(self.row["pool_tokens"])

    @property
    def pinned(self) -> bool:
        """Whether the engine was told the bytes of its cache, which is then no share of the card."""
        said = f"{self.row['other_terms']} {self.row['note']}"
        return any(word in said for word in ("pinned", "fixed 2-GiB", "KV bytes per rank", "--kv-cache-memory"))

    @property
    def at_least(self) -> bool:
        """Whether the page only says that the pool is no smaller."""
        return "floor" in self.row["note"]


@dataclass(frozen=True)
class Stated:
    """What the page says of the pool."""

    start: Start
    low: int = 0
    best: int = 0
    high: int = 0
    objections: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    why: str = ""

    @property
    def known(self) -> bool:
        return self.best > 0

    @property
    def said_to_fit(self) -> bool:
        """Without any doubt about its memory."""
        return self.known and not self.objections and not set(self.notes) & _DOUBTS

    @property
    def said_not_to_fit(self) -> bool:
        """For its memory: other objections are about what the engine can or what is safe."""
        return bool(set(self.objections) & _SHORT)

    @property
    def inside(self) -> bool:
        pool = self.start.pool_tokens or 0
        return self.low <= pool <= self.high

    @property
    def error(self) -> float:
        pool = self.start.pool_tokens or 0
        return 0.0 if self.start.at_least and self.best >= pool else abs(self.best / pool - 1)


def starts(rows: Path = ROWS) -> tuple[Start, ...]:
    with rows.open(encoding="utf-8", newline="") as opened:
        return tuple(Start(row) for row in csv.DictReader(opened))


def own_sequences(gpu: str) -> int:
    """What vLLM takes at once where nobody says, which a person who names nothing has started."""
    card = catalog.gpu(gpu.partition("+")[0])
    return vllm_own_sequences(int(float(card.memory_gb.value or 0) * GB), card.compute_capability)


def argv(start: Start) -> list[str]:
    """With what the author says of the start, what the engine does where he says nothing, and nothing that only we
    would know.
    """
    row = start.row
    count, engine = int(row["gpu_count"] or 1), row["engine"].partition("-fork")[0]
    boxes = count // 8 if count > 16 else 1
    box = _BOXES.get(row["gpu"]) if count == 1 else None
    stated = ["plan", _model(row), "--box", box or f"{count // boxes}x-{row['gpu']}"]
    stated += ["--nodes", str(boxes), "--pp", row["pipeline"]] if boxes > 1 else []
    stated += ["--engine", engine] if engine != "any" else []
    if not engine.endswith("llama.cpp") and row["tensor"] and (count > 1 or int(row["tensor"]) > 1):
        stated += ["--tp", row["tensor"], "--dcp", row["dcp"] or "1"]
    for option, column in (
        ("--gpu-memory-utilization", "memory_fraction"), ("--context", "max_model_len"),
        ("--max-num-seqs", "max_num_seqs"), ("--max-num-batched-tokens", "max_batched_tokens"),
    ):  # fmt: skip
        stated += [option, row[column]] if row[column] else []
    if engine == "vllm" and not row["max_num_seqs"]:
        stated += ["--max-num-seqs", str(own_sequences(row["gpu"]))]
    cache_type = row["kv_dtype"].split(" ")[-1]
    stated += ["--kv-dtype", cache_type] if _STATED_TYPE.fullmatch(cache_type) else []
    stated += ["--expert-parallel"] if _WHOLE_EXPERTS.search(row["note"]) and "sglang" not in engine else []
    if release := _RELEASE.search(row["version_or_image"]):
        stated += ["--engine-version", release[0]]
    stated += ["--draft"] if row["draft"] not in ("none", "") else []
    stated += ["--host-memory", "1024"] if engine.endswith("llama.cpp") else []
    return [*stated, "--json"]


def ask(start: Start) -> Stated:
    words = argv(start)
    done = CliRunner().invoke(cli, words)
    if "cannot be resolved" in done.output + str(done.exception):  # a build that no recording holds: as its model
        done = CliRunner().invoke(cli, ["plan", start.row["model"], *words[2:]])
    if not done.stdout.startswith("{"):
        return Stated(start, why=f"{done.exception or done.output}"[:120])
    plans = json.loads(done.stdout)["plans"]
    if not plans:
        return Stated(start, why="no plan")
    kv, objections = plans[0]["kv"], plans[0]["objections"]
    return Stated(
        start,
        kv["low_tokens"],
        kv["capacity_tokens"],
        kv["high_tokens"],
        tuple(found["code"] for found in objections),
        tuple(found["code"] for found in plans[0]["notes"]),
        "; ".join(found["message"] for found in objections)[:120],
    )


def _model(row: dict[str, str]) -> str:
    if row["artifact"] in _STATED_FORMATS:
        return _STATED_FORMATS[row["artifact"]]
    named = row["artifact"].split(" ")[0]
    return named if "/" in named else row["model"].partition(" (inferred)")[0]
