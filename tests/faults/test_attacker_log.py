"""A log: text that an engine, a prompt or a stranger wrote, of any size and shape, given to `diagnose`.

What a hostile log costs is measured against an ordinary one of its size, in the same process and in processor time.
"""

from __future__ import annotations

import io
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count, islice
from pathlib import Path

import pytest

from tests.drawn import drawn
from tests.unit.serving.diagnose.noise import vllm
from upright.engines import ENGINES, log_progress
from upright.facts import catalog
from upright.serving.diagnose import diagnose, free_text, lines, milestones, scan, user_report
from upright.serving.diagnose.diagnose import rows_of_lines
from upright.serving.diagnose.literals import PatternPrefilter, required_texts

NOT_PROMISED = (
    "that each of millions of lines, all different, is looked at: the first and the last are, and a note says so",
)

MB = 1_000_000
FAILURE = b"(EngineCore pid=9) RuntimeError: DeepGEMM backend is not available or outdated.\n"
CODE = "vllm-deepgemm-missing"
SLOWEST_MATCH = 12
"""Of one pattern on one line that is cut, in times of a plain loop over each of its beginnings (`a*b` on letters a): a
fifth of a second here. A thousand times as long was measured on a pattern that this test was written for."""


def patterns() -> Iterator[tuple[str, str]]:
    for row in catalog.failures():
        yield row.id, row.pattern
        if row.beside is not None:
            yield f"{row.id}, beside", row.beside
        for number, suspect in enumerate(row.suspects):
            if suspect.beside is not None:
                yield f"{row.id}, suspect {number}", suspect.beside
    yield from ((f"sign {number}", pattern) for number, pattern in enumerate(milestones.signs()))
    for name, engine in ENGINES.items():
        log = engine.log
        for kind in ("shape", "family_shape", "serves", "complaint", "echo"):
            if pattern := getattr(log, kind):
                yield f"{name} {kind}", pattern
        yield from ((f"{name} phase {number}", pattern) for number, (pattern, _) in enumerate(log.phases))
    for module in (milestones, lines, scan, user_report, free_text, log_progress):
        for name, constant in vars(module).items():
            for number, pattern in enumerate(constant if isinstance(constant, tuple) else [constant]):
                if isinstance(pattern, re.Pattern) and isinstance(pattern.pattern, str):
                    yield f"{module.__name__.rpartition('.')[2]}.{name} {number}", pattern.pattern


PATTERNS = dict(patterns())


def attacks(pattern: str) -> Iterator[str]:
    """Lines that hold what a pattern begins with, again and again, and never what it ends with."""
    ways = required_texts(pattern) or []
    written = re.findall(r"[A-Za-z_' .:(\[/]{2,}", pattern)
    begun = (
        {text for way in ways for text in way} | set(written) | set("(a 1./[!-'\"") | {"a.", "1.", "_a", " a", "ab "}
    )
    begun |= {"".join(way[:length]) for way in ways for length in range(1, len(way) + 1)}
    for text in sorted(begun):
        for between in ("", " ", "a", "1", "/", " 1.", "-", "_"):
            unit = f"{text}{between}"
            yield (unit * (lines.LONGEST_BYTES // len(unit) + 1))[: lines.LONGEST_BYTES]


@pytest.mark.promise("a pattern's time on a line is bounded, whatever the line repeats")
@pytest.mark.parametrize("name", drawn([*PATTERNS], 120, [*PATTERNS]))
def test_no_pattern_backtracks_without_end(name: str):
    compiled = re.compile(PATTERNS[name])
    quarter = SLOWEST_MATCH * loop_seconds() / 4**3
    for line in attacks(compiled.pattern):
        # Time that grows with the length's third power is 64 times a quarter's; what grows faster is long there too.
        if spent(lambda line=line: compiled.search(line, 0, len(line) // 4)) >= quarter:
            assert times_a_loop(lambda line=line: compiled.search(line)) < SLOWEST_MATCH, line[:80]


def times_a_loop(match: Callable[[], object]) -> float:
    """Beside the loop itself, and of three tries where the first is long: a busy machine costs time once."""
    tries: list[float] = []
    while not tries or (min(tries) >= SLOWEST_MATCH and len(tries) < 3):
        tries.append(spent(match) / max(spent(loop), 1e-6))
    return min(tries)


@cache
def loop_seconds() -> float:
    return min(spent(loop) for _ in range(3))


def loop() -> None:
    re.search(r"a*b", "a" * lines.LONGEST_BYTES)


def spent(match: Callable[[], object]) -> float:
    began = time.process_time()
    match()
    return time.process_time() - began


@pytest.mark.promise("a pattern's time on a line is bounded, whatever the line repeats")
@pytest.mark.parametrize("unit", ["--flag value ", "--flag --flag ", "NAME=NAME=", "NAME=value "])
def test_a_long_command_in_a_report_is_read_at_once(unit: str):
    """What was typed, and then a word that ends it otherwise than a command ends."""
    assert times_a_loop(lambda: user_report.read_report([unit * 300 + "two words\tand\ttabs"])) < SLOWEST_MATCH


@pytest.mark.promise("a pattern's time on a line is bounded, whatever the line repeats")
def test_the_attacks_find_a_pattern_that_backtracks():
    bad = re.compile(r"\w+_tensor\w*: tensor '\S+' not found")
    line = next(line for line in attacks(bad.pattern) if line.startswith("_tensor_tensor"))
    assert times_a_loop(lambda: bad.search(line[:1500])) > SLOWEST_MATCH


def unlike(line: Callable[[str], str], size_bytes: int = 16 * MB) -> bytes:
    """Lines that differ in letters, so that none has been seen before."""
    letters = str.maketrans("0123456789", "abcdefghij")
    length = len(line("abcdef")) + 1
    return "\n".join(
        islice((line(str(number).translate(letters)) for number in count()), size_bytes // length)
    ).encode()


SEEN = [seen.line for row in catalog.failures() if row.where == "log" and row.seen != "none" for seen in row.seen]
HOSTILE: dict[str, Callable[[], bytes]] = {
    "one line of brackets": lambda: b"(" * 16 * MB,
    "one line of carriage returns": lambda: b"\ra" * (8 * MB),
    "brackets": lambda: unlike(lambda word: word + "(" * 90),
    "words": lambda: unlike(lambda word: f"{word} the quick memory of the {word} failed to error"),
    "short lines": lambda: unlike(lambda word: word),
    "failures": lambda: unlike(lambda word: f"{word} {SEEN[len(word) * 7 % len(SEEN)]}"),
    "half a failure, often": lambda: unlike(lambda word: word + "[Errno 98]" * 400 + " while attempting to bin"),
    "exceptions": lambda: unlike(lambda word: f"{word}Error: x"),
    "escapes": lambda: unlike(lambda word: word + "\x1b]" * 40),
}
OFTEN = ("one line of brackets", "brackets", "failures")


@pytest.fixture(scope="module")
def ordinary_seconds() -> float:
    block = ("\n".join(vllm(40_000)) + "\n").encode()
    log = io.BytesIO((block * (16 * MB // len(block) + 1))[: 16 * MB])
    return min(_spent(log) for _ in range(2))


def _spent(log: io.BytesIO) -> float:
    log.seek(0)
    began = time.process_time()
    diagnose(log, subject="x")
    return time.process_time() - began


@pytest.mark.promise("a hostile log takes at most five times as long as an ordinary one of its size")
@pytest.mark.parametrize(
    "shape", [pytest.param(shape, marks=[] if shape in OFTEN else pytest.mark.slow) for shape in HOSTILE]
)
def test_a_hostile_log_takes_as_long_as_others(shape: str, ordinary_seconds: float):
    log = io.BytesIO(HOSTILE[shape]())
    spent = _spent(log)
    if spent > 4 * ordinary_seconds:  # another process may have had the cache
        spent = min(spent, _spent(log))
    assert spent < 5 * ordinary_seconds, f"{spent:.2f} s, an ordinary log {ordinary_seconds:.2f} s"


@pytest.mark.slow
@pytest.mark.promise("a log of any size, and a line without an end, are read in bounded memory")
@pytest.mark.parametrize("ending", [b"", b"\n" + FAILURE])
def test_a_line_without_an_end_is_read_in_little_memory(tmp_path: Path, ending: bytes):
    log = tmp_path / "engine.log"
    with log.open("wb") as file:
        file.truncate(200 * MB)
        file.seek(200 * MB)
        file.write(ending)

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (384 << 20, 384 << 20))

    done = subprocess.run(
        [sys.executable, "-m", "upright", "diagnose", str(log)],
        capture_output=True, text=True, preexec_fn=limited, check=False, env={**os.environ, "NO_COLOR": "1"},
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert (CODE in done.stdout) is bool(ending), done.stdout


@pytest.mark.promise("a line that is cut is still known by its beginning and by its end")
@pytest.mark.parametrize("filling", [b"x" * 50_000, b"(" * 3 * MB, b"\xe2\x96\x88" * 20_000])
def test_a_long_line_is_known_by_its_beginning_and_its_end(filling: bytes):
    for line in (FAILURE.rstrip() + filling + b"\n", filling + FAILURE):
        diagnosis = diagnose(io.BytesIO(b"INFO 05-15 03:00:00 [a.py:1] x\n" + line), subject="x")
        assert diagnosis.code == CODE
        assert diagnosis.findings[0].seen.number == 2
        assert "DeepGEMM" in diagnosis.findings[0].seen.text
        assert len(diagnosis.findings[0].seen.text) < 3000


@pytest.mark.promise("a line that is cut is still known by its beginning and by its end")
def test_what_a_terminal_wrote_over_is_read():
    bar = b"".join(b"\rLoading shards: %d%%" % (number % 100) for number in range(20_000))
    diagnosis = diagnose(io.BytesIO(bar + b"\r" + FAILURE.rstrip() + bar), subject="x")
    assert diagnosis.code == CODE


@pytest.mark.promise("a flood of different lines hides neither the first failure nor the last")
@pytest.mark.parametrize("place", ["first", "last"])
def test_a_flood_hides_nothing_at_either_end(place: str):
    flood = unlike(lambda word: f"{word}Error: x", 4 * MB)
    log = FAILURE + flood if place == "first" else flood + b"\n" + FAILURE
    diagnosis = diagnose(io.BytesIO(log), subject="x")
    assert CODE in [finding.code for finding in diagnosis.findings]
    assert any("lines were not looked at" in note for note in diagnosis.notes)


@pytest.mark.promise("a flood of different lines hides neither the first failure nor the last")
def test_an_ordinary_log_is_looked_at_whole():
    log = "\n".join((*vllm(20_000), *SEEN, *vllm(20_000, seed=2))).encode()
    assert diagnose(io.BytesIO(log), subject="x").notes == ()


@pytest.mark.slow
@pytest.mark.promise("a flood of different lines hides neither the first failure nor the last")
def test_the_sieve_keeps_every_line_that_a_pattern_matches():
    patterns = [row.pattern for row in rows_of_lines()] + list(milestones.signs())
    sieve = PatternPrefilter(patterns)
    assert sieve.always == [], "a pattern without any text is tried on every line of every log"
    texts = [*SEEN, *(text.replace(" ", "  ") for text in SEEN), *(text.upper() for text in SEEN)]
    sentences = [text.encode().translate(None, b"0123456789") for text in texts]
    kept: dict[int, set[int]] = {}
    for place, _, numbers in sieve.kept(b"\n".join(sentences)):
        kept.setdefault(place, set()).update(numbers)
    compiled = [re.compile(pattern) for pattern in patterns]  # more than the module keeps by itself
    for place, text in enumerate(texts):
        for number, pattern in enumerate(compiled):
            if pattern.search(text):
                assert number in kept.get(place, set()), (pattern.pattern, text)
