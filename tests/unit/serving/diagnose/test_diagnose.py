"""A log is told by its first cause, whoever printed it, among thousands of lines that mean nothing."""

from __future__ import annotations

import io
import random
from functools import cache
from pathlib import Path

import pytest

from tests.drawn import drawn
from tests.unit.serving.diagnose.noise import NOISE, sglang, vllm
from upright.facts import catalog
from upright.facts.catalog.rows.failure import FailureRow, SeenLine
from upright.facts.records.diagnosis import Diagnosis, Sighting
from upright.serving.diagnose import LogContext, cause_in_log, diagnose
from upright.serving.diagnose.lines import is_quiet

SEEN = [
    (row, seen)
    for row in catalog.failures()
    if row.seen != "none" and row.where == "log" and row.severity != "hang"
    for seen in row.seen
]


def told(*lines: str, around: LogContext | None = None, end: str = "\n") -> Diagnosis:
    return diagnose(io.BytesIO(("\n".join(lines) + end).encode()), subject="log", around=around)


@cache
def busy(engine: str, seed: int) -> tuple[str, ...]:
    return tuple(NOISE[engine](5000, seed=seed))


@pytest.mark.parametrize(
    ("row", "seen"), drawn(SEEN, 60, [f"{row.id}-{number}" for number, (row, _) in enumerate(SEEN)])
)
def test_every_pattern_is_found_among_five_thousand_lines(row: FailureRow, seen: SeenLine):
    """With colours, ranks in turn, progress bars that go back, and a last line that was never finished."""
    line = seen.line
    dice = random.Random(line)
    engine = row.engines[0]
    lines = list(busy(engine, dice.randrange(3)))
    place = dice.randrange(100, 4900)
    wrapped = line if line.startswith(("error", "(", "[", "0.")) else f"\x1b[31m{line}\x1b[0m"
    lines[place:place] = [wrapped]
    if seen.beside is not None:
        lines[place - 50] = seen.beside
    found = told(*lines, lines[0][:17], end="", around=LogContext(engine=None if engine == "any" else engine))
    assert row.id in [finding.code for finding in found.findings]
    finding = next(each for each in found.findings if each.code == row.id)
    assert finding.seen.number == place + 1
    assert "\x1b" not in finding.seen.text
    assert found.failed == (row.severity not in ("slow", "information") and finding.severity != "information")
    assert finding.severity == row.severity or is_quiet(line), "a warning alone is no failure"
    if found.failed and row.severity != "symptom":
        assert found.code == row.id
    assert found.log_lines == 5002


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp"])
def test_noise_alone_raises_no_alarm(engine: str):
    found = told(*NOISE[engine](5000))
    assert not found.failed
    assert found.engine == engine
    assert found.excerpt == ()
    assert found.notes == (), "a busy engine's lines are alike, and all of them are looked at"


def test_the_first_cause_is_named_and_not_the_last_symptom():
    cause = "(EngineCore_DP0 pid=9) ValueError: No available memory for the cache blocks. Try increasing"
    symptom = "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above."
    found = told(*vllm(50), symptom, *vllm(5), cause, symptom)
    assert found.code == "vllm-no-memory-for-cache"
    assert [each.code for each in found.findings][:2] == ["vllm-no-memory-for-cache", "vllm-core-failed"]


def test_of_two_causes_the_earlier_one_is_named():
    first, second = "RuntimeError: CUDA error: an illegal memory access was encountered", "CUDA out of memory"
    assert told(*sglang(20), first, second).code == "cuda-illegal-memory-access"
    assert told(*sglang(20), second, first).code == "cuda-out-of-memory"


def test_ranks_are_told_apart_and_counted():
    line = (
        "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 106496, Hardware limit: 101376"
    )
    shuffled = [f"[2026-06-28 13:34:12 TP{rank}] {line}" for rank in (3, 1, 3, 7)]
    cause = told(*sglang(20), *shuffled).cause
    assert cause is not None
    assert (cause.count, cause.ranks, cause.seen.rank) == (4, ("TP3", "TP1", "TP7"), "TP3")
    assert told("(Worker_TP3 pid=12) CUDA out of memory").findings[0].ranks == ("Worker_TP3",)
    assert told("(Worker pid=12) CUDA out of memory").findings[0].ranks == ("Worker 12",)
    assert told("[rank2]: torch.OutOfMemoryError: CUDA out of memory").findings[0].ranks == ("rank2",)


@pytest.mark.parametrize(
    "before",
    [
        "vllm-1  | ",
        "Nov 15 03:31:20 box vllm[123]: ",
        "2026-11-15T03:31:20.123Z stderr F ",
        "2026-11-15T03:31:20.123456789Z ",
        "Loading: 57%|#####\r",
    ],
)
def test_what_stands_before_a_line_does_not_hide_it(before: str):
    found = told(f"{before}error: unknown argument: -fmoe")
    assert found.code == "llama-unknown-flag"
    assert found.findings[0].seen.text == "error: unknown argument: -fmoe"


def test_what_the_line_names_is_in_the_remedy():
    remedy = told("error: invalid argument: -mla").findings[0].remedies[0]
    assert (remedy.do, remedy.name) == ("unset_flag", "-mla")


def test_an_earlier_life_is_not_judged():
    start = "0.00.002.127 I srv  llama_server: initializing ..."
    found = told(start, "error: invalid argument: -mla", start, "0.00.9 I srv  llama_server: listening on http://x")
    assert not found.failed
    assert found.starts == 2


def test_an_unknown_cause_gets_the_shortest_excerpt_and_a_row_to_fill_in():
    """Two processes write at once; the raising frame and the exception are one process's."""
    lines = [
        "(EngineCore pid=7) Traceback (most recent call last):",
        '(EngineCore pid=7)   File "/x/a.py", line 3, in outer',
        "(APIServer pid=1) INFO 05-15 03:31:20 [x.py:1] waiting",
        "(EngineCore pid=7)     inner()",
        '(EngineCore pid=7)   File "/x/b.py", line 77, in inner',
        "(APIServer pid=1) INFO 05-15 03:31:21 [x.py:1] waiting",
        "(EngineCore pid=7)     raise OddError(n)",
        "(EngineCore pid=7) OddError: 17 moons don't align",
        "(APIServer pid=1) Traceback (most recent call last):",
        "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above.",
    ]
    found = told(*vllm(40), *lines)
    assert found.failed
    assert found.code is None
    assert [each.number for each in found.excerpt] == [45, 47, 48]
    assert found.row is not None
    (row,) = _rows(found.row)
    assert row["engines"] == ["vllm"]
    filled = {**row, "id": "odd", "title": "moons", "cause": "tides", "sources": ["x"]}
    made = FailureRow.model_validate(filled)
    assert made.matches("OddError: 23 moons don't align")


def _rows(text: str) -> list[dict[str, object]]:
    import yaml

    loaded = yaml.safe_load(text)
    assert isinstance(loaded, list)
    return loaded


def test_a_failure_that_says_nothing_is_still_a_failure():
    found = told("INFO 05-15 03:31:20 [x.py:1] loading", around=LogContext(engine="vllm", exit_code=-9, failed=True))
    assert found.failed
    assert found.code == "exit-137", "a signal is a cause"
    unsaid = told("INFO 05-15 03:31:20 [x.py:1] loading", around=LogContext(engine="vllm", exit_code=3, failed=True))
    assert (unsaid.failed, unsaid.code) == (True, None)
    assert unsaid.excerpt[-1].text == "INFO 05-15 03:31:20 [x.py:1] loading"
    assert (
        told(around=LogContext(failed=True, reason="the engine ended with code 3"), end="").excerpt[0].where == "host"
    )


@pytest.mark.parametrize(
    ("exit_code", "code"),
    [(-9, "exit-137"), (137, "exit-137"), (-11, "exit-segfault"), (139, "exit-segfault"),
     (-4, "exit-illegal-instruction"), (132, "exit-illegal-instruction"), (-7, "exit-bus-error"),
     (-6, "exit-aborted"), (1, None)],
)  # fmt: skip
def test_a_signal_tells_how_it_ended_where_nothing_else_does(exit_code: int, code: str | None):
    assert told("srv loading", around=LogContext(engine="llama.cpp", exit_code=exit_code, failed=True)).code == code


def test_a_killed_engine_is_told_by_the_kernel():
    killed = "Out of memory: Killed process 4711 (llama-server) total-vm:11964kB, anon-rss:4288kB"
    around = LogContext(exit_code=-9, failed=True, machine=(Sighting(where="kernel", text=killed),))
    found = told("srv loading", around=around)
    assert found.code == "host-killed-for-memory"


def test_silence_after_a_normal_line_is_a_hang_only_when_it_lasts():
    last = "(Worker_TP0 pid=1) INFO 05-15 03:31:20 [pynccl.py:113] vLLM is using nccl==2.30.3"
    other = last.replace("TP0", "TP1")
    assert told(*vllm(50), "x", last, other).failed is False, "nobody knows what came after an excerpt"
    assert told("x", last, other, around=LogContext(silent_seconds=30)).failed is False
    assert told("x", last, other, around=LogContext(silent_seconds=500)).code == "vllm-nccl-version-then-silence"
    assert told(last, "INFO 05-15 03:31:22 [x.py:1] Loading model weights took 14 GB").failed is False
    assert told("x", last, around=LogContext(exit_code=1, failed=True)).code is None
    hung = LogContext(failed=True, hung=True, silent_seconds=500)
    assert told("x", last, around=hung).code == "vllm-nccl-version-then-silence"
    assert told("x", "another line", around=hung).failed is True


def test_workers_that_take_nothing_hang_whatever_status_was_logged_before():
    status = (
        "(APIServer pid=4) INFO 05-18 02:52:54 [loggers.py:271] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg "
        "generation throughput: 0.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 91.0%"
    )
    waits = "(EngineCore pid=5) INFO 05-18 02:54:19 [shm_broadcast.py:698] No available shared memory broadcast block "
    waits += "found in 60 seconds."
    assert told(status, waits, waits.replace("02:54", "02:55")).code == "shm-broadcast-waits"


def test_a_traceback_that_was_survived_is_no_failure():
    lines = ["Traceback (most recent call last):", "ImportError: no such thing", "Application startup complete."]
    assert told("vllm", *lines).failed is False
    assert told("vllm", *lines[:2]).failed is True


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello world",
        "!!!!!!!!!!!!",
        "vLLM and SGLang are engines, llama.cpp is a third; see vllm.log",
        random.Random(1).randbytes(20_000).decode("latin-1"),
    ],
    ids=["empty", "hello", "bangs", "prose", "noise"],
)
def test_what_is_no_engines_log_is_not_called_healthy(text: str):
    found = told(text, end="")
    assert (found.failed, found.stood, found.code, found.excerpt) == (False, None, None, ())


def test_a_log_that_ends_before_the_engine_stands_says_so():
    """A machine that loses power, or a log that was copied too early: no line complains, and nothing stands."""
    start = "(APIServer pid=1) INFO 05-15 03:31:20 [utils.py:299]  ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.32.0"
    shards = "Loading safetensors checkpoint shards:  45% Completed | 28/62 [00:19<01:00,  2.06it/s]"
    found = told(start, shards)
    assert (found.failed, found.stood) == (False, False)
    assert found.excerpt[-1].text == shards
    assert told(start, shards, "INFO:     Application startup complete.").stood is True
    assert told(*list(sglang(300))[-200:]).stood is True, "the end of a long log, whose start was cut off"
    assert told(start, shards, around=LogContext(failed=False, stood=True)).stood is True


@pytest.mark.parametrize(
    "line",
    ["Killed", "serve.sh: line 3: 4711 Killed                  vllm serve /models/k2", "zsh: killed     vllm serve"],
)
def test_what_the_shell_says_of_a_killed_engine_is_the_cause(line: str):
    shards = "Loading safetensors checkpoint shards:  45% Completed | 28/62 [00:19<01:00,  2.06it/s]"
    assert told(*vllm(10), shards, line).code == "killed-from-outside"


def test_a_model_that_does_not_load_is_told_by_its_reason_and_not_by_the_farewell():
    """Builds before 2026 print no level; what no row knows is still told by the first line that complains."""
    farewell = (
        "llama_model_load_from_file_impl: failed to load model",
        "common_init_from_params: failed to load model 'x.gguf'",
        "srv    load_model: failed to load model, 'x.gguf'",
        "main: exiting due to model loading error",
    )
    start = ("build: 4589 (eb7cf15a) with cc", "main: loading model", "srv    load_model: loading model 'x.gguf'")
    known = told(*start, "llama_model_load: error loading model: missing tensor 'blk.0.attn_k_b.weight'", *farewell)
    assert known.engine == "llama.cpp"
    assert (known.code, known.excerpt[0].number) == ("llama-tensors-do-not-fit", 4)
    unknown = told(*start, "llama_model_load: error loading model: the moons do not align", *farewell)
    assert (unknown.failed, unknown.code, [each.number for each in unknown.excerpt]) == (True, "llama-load-error", [4])
    assert unknown.cause is not None
    assert unknown.cause.cause == "The loader says: the moons do not align"
    assert told(farewell[0]).failed, "and with no reason at all it has failed"


def test_a_second_life_that_stood_up_forgives_a_first_that_did_not_load():
    lost = "llama_model_load_from_file_impl: failed to load model"
    assert not told(lost, "main: server is listening on http://127.0.0.1:8080").failed


@pytest.mark.parametrize("engine", [None, "llama.cpp"])
def test_a_missing_library_is_named(engine: str | None):
    line = "llama-server: error while loading shared libraries: libcudart.so.12: cannot open shared object file"
    found = told(line, around=LogContext(engine=engine))
    assert found.code == "shared-library-missing"
    assert "ldconfig -p | grep libcudart.so.12" in found.findings[0].remedies[0].commands


def test_a_plain_out_of_memory_states_no_cause_that_it_cannot_know():
    line = "(EngineCore_DP0 pid=9) ERROR 01-29 10:00:09 [core.py:69] torch.OutOfMemoryError: CUDA out of memory."
    own = f"{line} GPU 0 has 94.97 GiB of which 1.00 GiB is free. This process has 33.00 GiB memory in use."
    found = told(own).findings[0]
    assert found.code == "cuda-out-of-memory"
    assert found.when is None
    assert "does not say" in found.cause
    other = told(
        f"{line} Process 4711 has 60.00 GiB memory in use. This process has 33.00 GiB memory in use."
    ).findings[0]
    assert other.code == "cuda-memory-shared"
    assert "process 4711 is, which holds 60.00 GiB" in other.remedies[0].why
    assert "ps -o pid,user,lstart,args -p 4711" in other.remedies[0].commands


def test_bytes_that_are_no_text_do_not_stop_it():
    log = io.BytesIO(b"\xff\xfe\x00 junk\n" * 10 + b"\x1b[31mCUDA out of memory\x1b[0m\r\n" + b"\xc3")
    assert diagnose(log, subject="log").code == "cuda-out-of-memory"


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_supervisor_is_told_the_code_and_the_line(engine: str, tmp_path: Path):
    echo = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
    log = tmp_path / "engine.log"
    log.write_text(
        "(EngineCore_DP0 pid=7) ERROR 05-15 03:31:20 [x.py:1]     raise RuntimeError(\n"
        "(EngineCore_DP0 pid=7) ERROR 05-15 03:31:20 [x.py:1] torch.OutOfMemoryError: CUDA out of memory.\n"
        f"(EngineCore_DP0 pid=7) RuntimeError: the worker is gone\n(APIServer pid=1) {echo}\n"
    )
    assert cause_in_log(log, engine) == "cuda-out-of-memory: torch.OutOfMemoryError: CUDA out of memory."
    log.write_text("(EngineCore pid=7) OddError: moons\n(APIServer pid=1) " + echo)
    assert cause_in_log(log, engine) == "OddError: moons"
    log.write_text("INFO loading\nall is well\n")
    assert cause_in_log(log, engine) is None


ASSERTION = "/src/ggml/src/ggml.c:1864: GGML_ASSERT(tensor->op == GGML_OP_UNARY) failed"


def test_a_line_with_several_causes_ranks_them_and_names_none():
    found = told(ASSERTION)
    assert (found.failed, found.code) == (True, None)
    assert [finding.severity for finding in found.findings] == ["symptom"]
    causes = found.findings[0].causes
    assert len(causes) >= 3
    assert all(suspect.cause and suspect.test and not suspect.shown for suspect in causes)


def test_the_cause_that_another_line_speaks_for_is_ranked_first():
    refused = "Error: 400 status code (no body)"
    plain, templated = told(refused), told("the role of message 3 is developer", refused)
    assert "template" not in plain.findings[0].causes[0].cause
    first, *others = templated.findings[0].causes
    assert "template" in first.cause
    assert first.shown
    assert not any(suspect.shown for suspect in others)


def test_where_nothing_failed_what_makes_it_slow_is_told():
    found = told(
        "(APIServer pid=1) INFO 09-20 17:39:49 [metrics.py:101] SpecDecoding metrics: Mean acceptance length: 1.00, "
        "Accepted throughput: 0.00 tokens/s, Drafted throughput: 4.00 tokens/s, Accepted: 0 tokens, "
        "Drafted: 40 tokens, Per-position acceptance rate: 0.000, Avg Draft acceptance rate: 0.0%",
        'INFO:     127.0.0.1:1 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    )
    assert (found.failed, found.code) == (False, "told-acceptance-zero")


EVIDENCE = [row for row in catalog.failures() if row.where == "evidence"]


@pytest.mark.parametrize("row", EVIDENCE, ids=lambda row: row.id)
def test_what_prove_wrote_down_is_a_diagnosis(row: FailureRow):
    assert row.seen != "none"
    for seen in row.seen:
        sighting = Sighting(where="evidence", text=seen.line)
        found = told(*vllm(20), around=LogContext(failed=True, stood=True, machine=(sighting,)))
        assert found.failed
        assert [finding.code for finding in found.findings if finding.severity != "information"] == [row.id]
        assert found.code == (None if row.severity == "symptom" else row.id)
