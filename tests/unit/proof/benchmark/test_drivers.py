"""Results of other tools, recorded from real runs, and published tables -> the same records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import ROOT, Upright
from upright.base.errors import EngineError, ReadError
from upright.facts.records.benchmark import Shape
from upright.proof.benchmark.drivers import drive, drivers, read_result_file
from upright.proof.benchmark.load import LoadTarget

RECORDED = ROOT / "tests/recordings/bench"
SHAPE = Shape(prompt_tokens=256, output_tokens=100, concurrency=32, requests=96)


def test_llama_bench():
    record = read_result_file(RECORDED / "llama-bench-b11669.json")
    prompt, tokens = record.cells
    assert (prompt.shape.prompt_tokens, prompt.shape.output_tokens) == (64, 0)
    assert (tokens.shape.prompt_tokens, tokens.shape.output_tokens) == (0, 16)
    rates = json.loads((RECORDED / "llama-bench-b11669.json").read_text())[1]["samples_ts"]
    assert tokens.tpot_seconds.low == pytest.approx(1 / max(rates))
    assert tokens.output_tokens_per_second == pytest.approx(sum(rates) / 3, rel=1e-3)
    assert (tokens.machine.program, tokens.machine.version, tokens.sent) == ("llama-bench", "11669", 3)
    assert tokens.requests_per_second == pytest.approx(3 / sum(16 / rate for rate in rates))


def test_vllm_bench_serve():
    """A token every 20 ms: its ITL counts the role and the ending as pieces too, its TPOT does not."""
    (cell,) = read_result_file(RECORDED / "vllm-bench-0.32.0.json").cells
    assert (cell.sent, cell.succeeded, cell.shape.concurrency) == (12, 12, 4)
    assert cell.tpot_seconds.mean == pytest.approx(0.020, rel=0.01)
    assert cell.itl_seconds.mean == pytest.approx(0.0177, rel=0.01)
    assert cell.ttft_seconds.mean == pytest.approx(0.108, rel=0.01)
    assert cell.marks == ()


def test_vllm_bench_serve_with_a_failure(tmp_path: Path):
    """Its details have zeros for it, which are no measurements."""
    data = json.loads((RECORDED / "vllm-bench-0.32.0.json").read_text())
    data["errors"] = ["", "Traceback ...\nTimeoutError: too late\n", *[""] * 10]
    data |= {"completed": 11, "failed": 1}
    for name in ("ttfts", "latencies", "input_lens", "output_lens"):
        data[name][1] = 0
    data["itls"][1] = []
    (tmp_path / "result.json").write_text(json.dumps(data))
    (cell,) = read_result_file(tmp_path / "result.json").cells
    assert (cell.sent, cell.succeeded, cell.errors) == (12, 11, {"TimeoutError: too late": 1})
    assert cell.ttft_seconds.low > 0.1
    assert cell.output_tokens.low == 16
    assert cell.marks[0] == "1 of 12 requests failed: TimeoutError: too late (1)"


def test_aiperf():
    (cell,) = read_result_file(RECORDED / "aiperf-0.13.0.json").cells
    assert (cell.sent, cell.succeeded, cell.machine.version) == (12, 12, "0.13.0")
    assert (cell.shape.prompt_tokens, cell.shape.output_tokens, cell.shape.concurrency) == (64, 20, 4)
    assert cell.marks[0] == "prompts had 24 tokens, not 64"
    assert cell.tpot_seconds.mean == pytest.approx(0.0195, rel=0.01)
    assert cell.ttft_seconds.mean == pytest.approx(0.170, rel=0.01)
    assert cell.output_tokens_per_second == pytest.approx(135.5, rel=0.01)


def test_a_published_table():
    record = read_result_file(ROOT / "docs/examples/kimi-k2.5-int4.csv")
    assert record.source.startswith('"Kimi K2 on RTX PRO 6000 Blackwell')
    last = record.cells[-1]
    assert (last.shape.concurrency, last.total_tokens_per_second, last.ttft_seconds.mean) == (1000, 985, 85.59)
    assert "the others waited" in last.notes[0]
    assert record.cells[0].machine.program == "published"


@pytest.mark.parametrize("name", list(drivers()))
def test_the_words_hold_the_shape_and_not_the_key(name: str, tmp_path: Path):
    driver = drivers()[name]
    target = LoadTarget("http://127.0.0.1:9", "kimi", key="sk-secret")
    words = driver.argv("program", target, SHAPE, tmp_path, None, 1)
    assert any("256" in word for word in words)
    assert any("100" in word for word in words)
    assert not any("sk-secret" in word for word in words)
    assert (tmp_path / driver.result).parent == tmp_path


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not JSON"),
        ("{}", "is no result of vllm, llama-bench, aiperf, guidellm"),
        (
            json.dumps({"total_input_tokens": 1, "output_throughput": 1, "mean_ttft_ms": 1}),
            "vllm bench serve: KeyError",
        ),
        (json.dumps([{"avg_ts": 0, "n_prompt": 1, "n_gen": 1}]), "not a result of llama-bench"),
        (json.dumps({"benchmarks": [{}]}), "not a result of guidellm"),
        (json.dumps({"time_to_first_token": {}, "output_token_throughput": {}}), "not a result of aiperf"),
    ],
)
def test_what_is_no_result_is_said_to_be_none(content: str, said: str, tmp_path: Path):
    file = tmp_path / "result.json"
    file.write_text(content)
    with pytest.raises(ReadError, match=said):
        read_result_file(file)


def test_a_table_without_its_source_is_refused(tmp_path: Path):
    file = tmp_path / "table.csv"
    file.write_text("concurrency,output_tokens_per_second\n1,2\n")
    with pytest.raises(ReadError, match="# title, # source, # workload are missing"):
        read_result_file(file)


def test_a_tool_that_is_not_there_or_fails(tmp_path: Path):
    with pytest.raises(EngineError, match="is not on the PATH"):
        drive("guidellm", LoadTarget("http://127.0.0.1:9", "m"), SHAPE)
    broken = tmp_path / "vllm"
    broken.write_text("#!/bin/sh\necho no such flag >&2\nexit 3\n")
    broken.chmod(0o755)
    with pytest.raises(EngineError, match="vllm ended with code 3: no such flag"):
        drive("vllm", LoadTarget("http://127.0.0.1:9", "m"), SHAPE, program=str(broken))


@pytest.mark.slow
def test_import_and_report(upright: Upright, tmp_path: Path):
    """The two published tables, side by side on a page that says whose they are."""
    for name in ("kimi-k2-thinking-nvfp4", "kimi-k2.5-int4"):
        done = upright("bench", "--import", ROOT / f"docs/examples/{name}.csv", "-o", f"{name}.json")
        assert done.returncode == 0, done.stderr
        assert done.stderr == f"next: upright share report {name}.json\n"
    done = upright("report", "kimi-k2-thinking-nvfp4.json", "kimi-k2.5-int4.json", "-o", "page.html")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "page.html").read_text()
    assert text.count("Published figures, not measured by this tool") == 2
    assert text.count("<svg") == 12
    assert "5,816" in text
    assert "85,590 ms" in text
