"""What an engine said before it was ready did not keep it from being ready; what it says afterwards still counts."""

from __future__ import annotations

import io
import random
from collections import Counter
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from tests.conftest import ROOT
from upright.app.cli.diagnose import command
from upright.facts import catalog
from upright.facts.records.diagnosis import Diagnosis
from upright.serving.diagnose import LogContext, diagnose
from upright.serving.diagnose.lines import is_quiet, tells_no_level

LOGS = ROOT / "tests/recordings/logs"
WARNED = (
    "(EngineCore_DP0 pid=271) WARNING 05-15 03:31:20 [symm_mem.py:67] SymmMemCommunicator: Device capability 12.0 not "
    "supported, communicator is not available."
)
SGLANG = """\
[2026-08-22 09:00:01] server_args=ServerArgs(model_path='/models/glm', tp_size=8, host='127.0.0.1', port=30000)
[2026-08-22 09:00:31 TP0] Load weight begin. avail mem=93.50 GB
[2026-08-22 09:02:31 TP0] Load weight end. elapsed=120.11 s, type=Glm4MoeForCausalLM, avail mem=46.20 GB, mem usage=47.30 GB.
[2026-08-22 09:02:33 TP0] KV Cache is allocated. #tokens: 1106304, K size: 18.32 GB, V size: 18.32 GB
[2026-08-22 09:02:50 TP0] Capture cuda graph end. Time elapsed: 15.54 s. mem usage=0.12 GB. avail mem=9.58 GB.
[2026-08-22 09:02:51] INFO:     Started server process [135790]
[2026-08-22 09:02:51] INFO:     Waiting for application startup.
[2026-08-22 09:02:51] INFO:     Application startup complete.
[2026-08-22 09:02:51] INFO:     Uvicorn running on http://127.0.0.1:30000 (Press CTRL+C to quit)
[2026-08-22 09:02:52] INFO:     127.0.0.1:53812 - "GET /get_model_info HTTP/1.1" 200 OK
[2026-08-22 09:02:52 TP0] Prefill batch. #new-seq: 1, #new-token: 7, #cached-token: 0, token usage: 0.00, #queue-req: 0
[2026-08-22 09:02:55] INFO:     127.0.0.1:53814 - "POST /generate HTTP/1.1" 200 OK
[2026-08-22 09:02:55] The server is fired up and ready to roll!
[2026-08-22 09:03:11] INFO:     127.0.0.1:53816 - "POST /v1/chat/completions HTTP/1.1" 200 OK
"""  # noqa: E501
"""As SGLang 0.5.23 prints it (srt/entrypoints/http_server.py)."""
LLAMA = """\
build: {build} (eb7cf15a) with cc (Debian 12.2.0-14) 12.2.0 for x86_64-linux-gnu
main: HTTP server is listening, hostname: 127.0.0.1, port: 8080, http threads: 15
main: loading model
srv    load_model: loading model '/models/x.gguf'
llama_model_loader: loaded meta data with 44 key-value pairs and 70 tensors from /models/x.gguf
main: model loaded
main: {listening}
srv  update_slots: all slots are idle
"""


def _recorded(name: str, before: str | None = None) -> list[str]:
    lines = (LOGS / name).read_text().splitlines()
    return lines[: next((at for at, line in enumerate(lines) if before and before in line), len(lines))]


HEALTHY: dict[str, tuple[list[str], str]] = {
    "vllm": (_recorded("clean/vllm-stopped.log", before="[shutdown]"), "Starting vLLM server on"),
    "sglang": (SGLANG.splitlines(), "ready to roll"),
    "ktransformers": (_recorded("healthy/ktransformers.log"), "ready to roll"),
    "llama.cpp": (_recorded("clean/llama-busy.log"), "listening on http://"),
    "ik_llama.cpp": (_recorded("healthy/ik_llama.cpp.log"), "HTTP server listening"),
}
"""Engine -> a log of it that served, and its line that says that it is ready."""
STARTS: list[dict[str, str]] = yaml.safe_load((LOGS / "starts.yaml").read_text())
WARNINGS: list[dict[str, str]] = yaml.safe_load((LOGS / "warned.yaml").read_text())
WHOLE = {
    **{f"{engine} here": lines for engine, (lines, _) in HEALTHY.items() if engine != "ktransformers"},
    **{file.stem: file.read_text(errors="replace").splitlines() for file in sorted((LOGS / "clean").glob("*.log"))},
    "llama.cpp b11669": _recorded("healthy/llama.cpp.log"),
    **{start["name"]: start["lines"].splitlines() for start in STARTS},
}
"""Logs of starts that came up."""
BEGINS = {
    "vllm": "(APIServer pid=1) INFO 05-15 03:31:19 [utils.py:299] vLLM API server version 0.32.0",
    "sglang": SGLANG.splitlines()[0],
    "ktransformers": SGLANG.splitlines()[0],
    "llama.cpp": LLAMA.splitlines()[0],
}
ROWS = [row for row in catalog.failures() if row.where == "log" and row.severity != "hang"]


def told(*lines: str, around: LogContext | None = None) -> Diagnosis:
    return diagnose(io.BytesIO("\n".join((*lines, "")).encode()), subject="a log", around=around)


def split(engine: str) -> tuple[list[str], list[str]]:
    """What it printed before it was ready, and from there."""
    lines, ready = HEALTHY[engine]
    at = next(at for at, line in enumerate(lines) if ready in line)
    return lines[:at], lines[at:]


def test_there_are_enough_starts_of_each_engine_and_of_each_silicon():
    assert len({"\n".join(lines) for lines in WHOLE.values()}) >= 75
    engines = Counter(start["engine"] for start in STARTS)
    fewest = {"vllm": 20, "sglang": 10, "ik_llama.cpp": 10, "llama.cpp": 4, "ktransformers": 3}
    assert {name for name, count in fewest.items() if engines[name] < count} == set()
    silicon = " ".join(start["silicon"] for start in STARTS)
    wanted = ("SM 7.5", "SM 8.6", "SM 8.9", "SM 9.0", "SM 12.0", "SM 12.1", "gfx1151")  # the CPU is the recorded runs
    assert [name for name in wanted if name not in silicon] == []


def test_a_warning_before_ready_is_no_failure_on_the_command_line(tmp_path: Path):
    before, after = split("vllm")
    log = tmp_path / "vllm.log"
    log.write_text("\n".join((*before, WARNED, *after, "")))
    result = CliRunner().invoke(command, [str(log)])
    assert result.exit_code == 0, result.output
    assert result.output.startswith("nothing failed")


@pytest.mark.parametrize("name", WHOLE)
def test_a_start_that_came_up_is_healthy_wherever_it_is_cut(name: str):
    """Whoever looks while it loads, or pastes a part of it, is not told that it failed."""
    lines = WHOLE[name]
    whole = told(*lines)
    assert (whole.failed, whole.stood) == (False, True), (whole.code, whole.excerpt)
    for parts in range(1, 9) if "stopped" not in name else ():  # how it was ended stands in its middle
        for part in (lines[: len(lines) * parts // 9], lines[len(lines) * parts // 9 :]):
            found = told(*part)
            assert not found.failed, (parts, found.code, found.excerpt)


@pytest.mark.parametrize("warning", WARNINGS, ids=lambda warning: warning["line"][:60])
def test_a_line_that_only_looks_alarming_ended_nothing(warning: dict[str, str]):
    """In a start that is not through yet, and behind one that is."""
    begin, line = BEGINS[warning["engine"]], warning["line"]
    before, after = split(warning["engine"])
    for lines in ((begin, line), (*before, line), (*before, *after, line), (*after, line)):
        found = told(*lines)
        assert not found.failed, (found.code, found.certainty)


def test_what_is_not_looked_at_for_want_of_time_still_tells_that_it_stood():
    """More alarming lines than there is time for, all different, and the line that says ready behind them."""
    dice = random.Random(3)
    words = ["".join(dice.choices("abcdefghijklmnop", k=7)) for _ in range(3000)]
    noise = [f"RuntimeError: CUDA error: {' '.join(dice.choices(words, k=20))} failed: not found" for _ in range(1200)]
    before, after = split("vllm")
    found = told(*before, *noise, *after, *("(APIServer pid=1) INFO 05-15 03:31:20 [x.py:1] fine" for _ in range(2000)))
    assert found.notes, "it was too much"
    assert (found.failed, found.stood) == (False, True), (found.code, found.excerpt)


@pytest.mark.parametrize(
    "answered",
    ['(APIServer pid=1) INFO:     127.0.0.1:4711 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
     "(APIServer pid=1) INFO 05-15 03:31:20 [loggers.py:248] Engine 000: Avg prompt throughput: 3.9 tokens/s, "
     "Avg generation throughput: 32.3 tokens/s, Running: 1 reqs, Waiting: 0 reqs",
     "[2026-06-28 13:34:12 TP0] Decode batch. #running-req: 1, #token: 7, gen throughput (token/s): 9.1",
     "1.02.003.004 I slot print_timing: id  0 | task 3 | prompt eval time =      41.00 ms /    35 tokens"],
)  # fmt: skip
def test_a_log_whose_beginning_was_cut_off_stood_when_it_answered(answered: str):
    fell = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.02 GiB."
    found = told(fell, answered)
    assert (found.failed, found.stood) == (False, True), found.code
    assert told(answered, fell).code == told(fell).code == "cuda-out-of-memory"
    idle = answered.replace("32.3 tokens/s", "0.0 tokens/s").replace("200 OK", "500 Internal Server Error")
    assert told(fell, idle).failed is (idle != answered)


def test_a_request_that_failed_beside_others_is_told_and_one_that_was_only_noted_is_no_failure():
    lost = "(APIServer pid=1) ERROR 05-15 03:31:20 [x.py:1] This model's maximum context length is 8192 tokens. However, you requested 9000 tokens"  # noqa: E501
    noted = '(APIServer pid=1) INFO:     172.17.0.1:45564 - "GET /v1/chat/completions HTTP/1.1" 405 Method Not Allowed'
    before, after = split("vllm")
    assert told(*before, *after, lost).code == "client-context-exceeded"
    found = told(*before, *after, noted)
    assert (found.failed, [finding.code for finding in found.findings]) == (False, ["client-endpoint-missing"])
    assert told(noted).code == "client-endpoint-missing", "of a line alone that is what somebody asks"


@pytest.mark.parametrize("engine", HEALTHY)
def test_whatever_was_said_before_ready_a_start_that_is_ready_did_not_fail(engine: str):
    """Every row's line, half of them at once, then some alone: a line of another row must not be what excuses it."""
    before, after = split(engine)
    seen = {row.id: row.seen[0].line for row in ROWS if row.seen != "none"}
    assert len(seen) > 500
    alone = random.Random(f"{engine} 1").sample(sorted(seen), 12)
    for names in (sorted(seen)[::2], sorted(seen)[1::2], *([name] for name in alone)):
        found = told(*before, *(seen[name] for name in names), *after)
        assert (found.failed, found.stood) == (False, True), (names[:3], found.code, found.excerpt)
        assert {finding.severity for finding in found.findings} <= {"information", "slow"}


@pytest.mark.parametrize("engine", HEALTHY)
def test_what_falls_after_ready_still_counts(engine: str):
    before, after = split(engine)
    fell = "CUDA error: an illegal memory access was encountered"
    for said in ((WARNED,), ("INFO 05-15 03:31:20 [x.py:1] received signal=SIGTERM",), (fell,), ()):
        found = told(*before, *said, *after, fell)
        assert (found.failed, found.code) == (True, told(*before, *after, fell).code)
        assert found.findings[0].seen.number == len(before) + len(said) + len(after) + 1
    assert told(*before, WARNED, *after, around=LogContext(failed=True, exit_code=1)).failed is True


LAST_WORDS = (
    (
        "Traceback (most recent call last):",
        '  File "/opt/moons.py", line 7, in align',
        "ValueError: 17 moons are not aligned",
    ),
    ("ValueError: 17 moons are not aligned",),
    ("[moons] CRITICAL: Could not load any moon!", "Attempted locations:"),
)


@pytest.mark.parametrize("engine", HEALTHY)
@pytest.mark.parametrize("words", LAST_WORDS, ids=lambda words: words[0][:20])
def test_last_words_of_an_engine_that_stood_are_told_though_no_row_knows_them(engine: str, words: tuple[str, ...]):
    """Behind its last sign of life; what it went on after was not its end."""
    before, after = split(engine)
    found = told(*before, *after, *words)
    assert (found.failed, found.stood, found.code) == (True, True, None)
    assert any("moon" in piece.text for piece in found.excerpt)
    alive = next(line for line in reversed(after) if is_quiet(line) or tells_no_level(line))
    on = told(*before, *after, *words, alive, *words, alive)
    assert (on.failed, on.stood) == (False, True)
    assert told(*before, *after, LAST_WORDS[1][0], alive, *words[-2:]).failed


def test_a_kernel_that_is_gone_after_the_last_answer_is_named():
    alive = "[2026-06-28 13:34:12 TP0] Decode batch. #running-req: 1, #token: 7, gen throughput (token/s): 9.1"
    fell = "[sgl_kernel] CRITICAL: Could not load any common_ops library!"
    for lines in ((alive, "ImportError: ", fell), (*SGLANG.splitlines(), alive, fell)):
        assert (told(*lines).failed, told(*lines).code) == (True, "torch-abi")


def test_sglang_is_not_ready_before_its_warmup_is_through():
    """Its HTTP server stands before; the sentence that ends the start is another (http_server.py, _wait_and_warmup)."""
    lines = SGLANG.splitlines()
    http = next(at for at, line in enumerate(lines) if "startup complete" in line)
    fell = ("Traceback (most recent call last):", "ValueError: 17 moons are not aligned")
    assert told(*lines[:http], *fell, *lines[http:-3], "Aborted").failed is True
    assert told(*lines[: http + 1]).stood is False
    assert told(*lines[:http], *fell, *lines[http:]).failed is False
    # The server in Rust has no uvicorn.
    rust = [line for line in lines if "INFO: " not in line]
    assert (told(*rust).failed, told(*rust).stood) == (False, True)


@pytest.mark.parametrize(
    "died",
    ["[2026-08-22 09:30:00] SIGQUIT received. signum=None, frame=None. It usually means one child failed.",
     "[2026-08-22 09:30:00] Received sigquit from a child process. It usually means the child failed."],
)  # fmt: skip
def test_an_sglang_that_died_after_ready_is_known_by_its_farewell(died: str):
    assert told(*SGLANG.splitlines(), died).failed is True


@pytest.mark.parametrize(
    "server",
    ["server is listening on http://127.0.0.1:8080 - starting the main loop",  # b4000
     "server is listening on unix:///run/llama.sock - starting the main loop",  # b6000
     "server is listening on https://127.0.0.1:8443"],
)  # fmt: skip
def test_llama_servers_of_all_years_are_ready_when_they_say_so(server: str):
    lines = LLAMA.format(build=6000, listening=server).splitlines()
    at = next(at for at, line in enumerate(lines) if server in line)
    assert told(*lines[:at]).stood is False, "its HTTP server listens before the model is loaded"
    assert told(*lines[: at + 1]).stood is True


@pytest.mark.parametrize(
    "line",
    ["Starting vLLM API server on http://0.0.0.0:8000",  # 0.7.3
     "Starting vLLM API server 0 on http://0.0.0.0:8000",  # 0.11
     "Starting vLLM server on http://0.0.0.0:8000"],  # 0.32
)  # fmt: skip
def test_a_vllm_whose_http_server_is_quiet_is_ready_all_the_same(line: str):
    """--uvicorn-log-level warning: the engine stands when its own sentence comes."""
    before, _ = split("vllm")
    found = told(*before, WARNED, f"(APIServer pid=1) INFO 05-15 03:31:20 [api_server.py:1912] {line}")
    assert (found.failed, found.stood) == (False, True)


HANGS = [row for row in catalog.failures() if row.severity == "hang"]


@pytest.mark.parametrize("row", HANGS, ids=lambda row: row.id)
def test_an_excerpt_that_ends_is_no_silence(row):
    """Nobody knows how long ago its last line was; who watches the engine knows."""
    last = row.seen[0].line
    found = told("(APIServer pid=1) INFO 05-15 03:31:20 [utils.py:299] vLLM API server version 0.32.0", last)
    assert (found.failed, found.code) == (False, None)
    assert any(row.id in note for note in found.notes) is (row.repeats is None), "what it means if nothing follows"
    assert not any(finding.severity == "hang" for finding in found.findings)
    quiet = LogContext(engine=row.engines[0], silent_seconds=row.silence_seconds + 1)
    assert told(*[last] * (row.repeats or 1), around=quiet).code == row.id


def test_a_line_that_says_how_long_it_waited_tells_of_silence_itself():
    waits = (
        "(EngineCore_DP0 pid=5) INFO 05-18 02:5{}:19 [shm_broadcast.py:698] No available shared memory broadcast block "
    )
    waits += "found in 60 seconds."
    first, second = waits.format(4), waits.format(5)
    assert told(first, second).code == "shm-broadcast-waits"
    assert told(first).failed is False
    assert told(first, second.replace("DP0", "DP1")).failed is False, "two that waited at the same time"


def test_an_engine_that_was_asked_to_stop_does_not_hang():
    asked = (
        "(EngineCore pid=2) INFO 05-15 03:31:20 [core.py:1454] [shutdown] EngineCore: trigger received signal=SIGTERM"
    )
    last = "(Worker_TP0 pid=1) INFO 05-15 03:31:20 [pynccl.py:113] vLLM is using nccl==2.30.3"
    assert told(asked, last, around=LogContext(silent_seconds=500)).failed is False
