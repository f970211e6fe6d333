"""Served loads that aiconfigurator publishes: how its rows are asked, and what of the answers is kept."""

from __future__ import annotations

import csv
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def silicon() -> ModuleType:
    loader = SourceFileLoader("measure_silicon", str(ROOT / "scripts/measure-silicon"))
    spec = spec_from_loader("measure_silicon", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def row(**told: str) -> dict[str, str]:
    usual = {
        "backend": "vllm", "backend_version": "0.19.0", "model_path": "MiniMaxAI/MiniMax-M2.5", "precision": "fp8",
        "system": "b200_sxm", "isl": "8192", "osl": "1024", "batch_size": "4", "tp_size": "4", "attention_dp_size": "1",
        "moe_tp_size": "4", "moe_ep_size": "1", "silicon_data_source": "db; silicon_concurrency=4; x",
        "silicon_ttft_ms": "400", "silicon_tpot_ms": "6",
    }  # fmt: skip
    return usual | told


def test_a_row_is_asked_as_it_tells(silicon: ModuleType):
    words = " ".join(silicon.argv(row()))
    assert words == (
        "plan MiniMaxAI/MiniMax-M2.5 --box 4x-b200-sxm --engine vllm --tp 4 --engine-version 0.19.0 --users 4 "
        "--context 9216 --json"
    )


@pytest.mark.parametrize(
    ("tensor", "replicas", "slices", "whole", "asked"),
    [
        ("64", "1", "8", "8", "--box 8x-b200-sxm --engine vllm --tp 8 --expert-parallel"),
        ("4", "1", "1", "4", "--box 4x-b200-sxm --engine vllm --tp 4 --expert-parallel"),
        ("4", "4", "1", "16", "--box 4x-b200-sxm --engine vllm --tp 1 --dp 4 --expert-parallel"),
        ("2", "", "1", "1", "--box 2x-b200-sxm --engine vllm --tp 2 --engine-version"),
    ],
)
def test_ranks_of_its_spelling(
    silicon: ModuleType, tensor: str, replicas: str, slices: str, whole: str, asked: str
) -> None:
    told = row(tp_size=tensor, attention_dp_size=replicas, moe_tp_size=slices, moe_ep_size=whole)
    assert asked in " ".join(silicon.argv(told))


def test_a_rate_is_held_against_times(silicon: ModuleType):
    speed = {"full": {"low": 100.0, "high": 200.0}, "prompt": {"low": 16_384.0, "high": 32_768.0}}
    first, second = silicon.of_row(row(), {"speed": speed, "notes": [], "objections": []})
    assert (first.figure, first.band, second.figure, second.band) == ("TPOT", (5.0, 10.0), "TTFT", (250.0, 500.0))
    (crowded,) = silicon.of_row(
        row(silicon_data_source="silicon_concurrency=64"), {"speed": speed, "notes": [], "objections": []}
    )
    assert crowded.figure == "TPOT"
    assert list(silicon.summary([first, second])) == [
        ("vllm", "b200_sxm", "TPOT", 1, 1, 1, "2.00"),
        ("vllm", "b200_sxm", "TTFT", 1, 1, 1, "2.00"),
    ]


def test_only_counts_are_kept(silicon: ModuleType):
    with silicon.STATED.open(encoding="utf-8", newline="") as opened:
        kept = list(csv.DictReader(opened))
    assert tuple(kept[0]) == silicon.COLUMNS
    for line in kept:
        assert int(line["inside"]) <= int(line["answered"]) <= int(line["asked"])
