"""Published reports as claims: every table of theirs is in a bundle, and the index of them comes with the package."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.seeding.publications import reports, statements
from upright.base.errors import UsageError
from upright.base.home import home
from upright.evidence.share.index_reading import SEEDS, SHIPPED, PinnedIndex, pin
from upright.evidence.share.index_requests import fetch_known_bundle, known_bundle, search_indexes
from upright.evidence.share.opening import open_bundle
from upright.evidence.share.repeats import OpenedBundle
from upright.evidence.share.seen_pointers import seen_in
from upright.evidence.share.statement import Headline

SCRIPT = Path(__file__).parents[4] / "scripts/make-seed-bundles"
BUNDLES = sorted((SEEDS / "bundles").glob("*.bundle.json"))
FIVE = {
    "kimi-k2.6-8x-rtx-pro-6000-vllm-first-start": 0,
    "kimi-k2-thinking-8x-rtx-pro-6000-sglang-peak": 1,
    "kimi-k2-thinking-8x-rtx-pro-6000-sglang": 2,
    "kimi-k2.6-8x-b200-vllm": 3,
    "kimi-k2.6-iq3_k-2x-rtx-pro-6000-max-q-ik": 4,
}
"""The first bundle of each report -> how many tables of throughput and latency the report prints."""


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path / "home"))


def opened(name: str) -> OpenedBundle:
    return open_bundle(SEEDS / "bundles" / f"{name}.bundle.json")


def figures(name: str) -> dict[tuple[str, str], float]:
    headlines: tuple[Headline, ...] = opened(name).statement.predicate.headlines
    return {(headline.shape, headline.metric): headline.figure for headline in headlines}


@pytest.mark.parametrize(("name", "tables"), FIVE.items())
def test_each_report_is_a_claim_with_every_table(name: str, tables: int) -> None:
    bundle = opened(name)
    predicate = bundle.statement.predicate
    assert bundle.verification.level == "claimed", bundle.verification.broken
    assert predicate.source is not None
    assert len(predicate.source.sha256) == 64
    rates = [
        table
        for table in predicate.tables
        if any(
            mark in " ".join((*table.columns, table.title)).lower()
            for mark in ("tok/s", "t/s", "throughput", "latency")
        )
    ]
    assert len(rates) == tables
    (report,) = [report for report in reports() if report.bundles[0].name == name]
    assert [table.title for table in predicate.tables] == [table.title for table in report.tables]
    assert [table.rows for table in predicate.tables] == [table.rows for table in report.tables]


def test_figures_are_those_that_were_published() -> None:
    thinking = figures("kimi-k2-thinking-8x-rtx-pro-6000-sglang")
    assert thinking["256 in, 100 out, 2048 at once", "total"] == 5816
    assert thinking["256 in, 100 out, 128 at once", "ttft"] == 1.324
    assert len(thinking) == 5 * 4
    assert len(figures("kimi-k2.5-8x-rtx-pro-6000-sglang")) == 6 * 4
    assert set(figures("kimi-k2.6-8x-b200-vllm").values()) == {44, 1408, 7046, 2.26448, 32.17603, 0.02114}
    assert max(figures("kimi-k2.6-iq3_k-2x-rtx-pro-6000-max-q-ik").values()) == 20.9


def test_flags_are_those_that_were_published() -> None:
    recipe = opened("kimi-k2.6-8x-b200-vllm").statement.predicate.records["recipe"]
    flags = {setting["name"]: setting["value"] for setting in recipe["arguments"]}
    assert flags["--tensor-parallel-size"] == "8"
    assert json.loads(flags["--speculative-config"])["model"] == "lightseekorg/kimi-k2.6-eagle3"
    assert flags["--trust-remote-code"] is None
    placed = opened("kimi-k2.6-iq3_k-2x-rtx-pro-6000-max-q-ik").statement.predicate.records["recipe"]["arguments"]
    assert next(setting["value"] for setting in placed if setting["name"] == "-ot") == r"blk\.(1|2)\.ffn.*=CUDA0"


def test_every_published_bundle_is_a_claim() -> None:
    levels = {file.name: open_bundle(file).verification for file in BUNDLES}
    assert len(levels) > 60
    assert {name: verification.broken for name, verification in levels.items() if verification.level != "claimed"} == {}


def test_they_are_what_the_facts_give() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_one_without_its_statement_is_noticed() -> None:
    """Facts that are changed give other bytes."""
    (report,) = [report for report in reports() if report.title.startswith("How to deploy")]
    changed = report.model_copy(update={"at": "2027"})
    assert statements(report)["kimi-k2.6-8x-b200-vllm"].identity == known_bundle("38d3771d10a3").pointer.identity
    assert statements(changed)["kimi-k2.6-8x-b200-vllm"].identity != known_bundle("38d3771d10a3").pointer.identity


def test_a_search_answers_out_of_the_box() -> None:
    (answer,) = search_indexes("moonshotai/Kimi-K2.6", "NVIDIA B200", 8, None, offline=False).indexed
    assert [pointer.tokens_per_second for pointer in answer.pointers] == [44.0]
    assert answer.reading.files == 3
    (anywhere,) = search_indexes("kimi-k2.6", None, None, None, offline=False).indexed
    boxes = {(pointer.gpus, pointer.gpu) for pointer in anywhere.pointers}
    assert boxes >= {(8, "b200-sxm"), (8, "rtx-pro-6000-server"), (2, "rtx-pro-6000-max-q")}
    (everything,) = search_indexes(None, None, None, None, offline=True).indexed
    assert len(everything.pointers) == len(BUNDLES)
    assert not home().exists(), "nothing is remembered of what the package brings"


def test_what_it_points_to_is_in_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path, verification = fetch_known_bundle("38d3771d10a3")
    assert verification.level == "claimed"
    assert path.read_bytes() == (SEEDS / "bundles/kimi-k2.6-8x-b200-vllm.bundle.json").read_bytes()


def test_nobody_else_is_called_so() -> None:
    with pytest.raises(UsageError, match="comes with upright"):
        pin(PinnedIndex(name=SHIPPED, url="https://example.org/index", keys=("SHA256:x",)))


def test_every_pointer_lies_where_its_key_says() -> None:
    pointers = seen_in(PinnedIndex(name=SHIPPED, url=str(SEEDS), keys=()))
    assert len({pointer.identity for pointer in pointers}) == len(BUNDLES)
