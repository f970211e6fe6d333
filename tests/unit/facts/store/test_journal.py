"""The evidence log: what was acknowledged stays, what was torn is set aside, and one process writes."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.facts.store.samples import observation
from upright.base.errors import RecordError, StoreError
from upright.facts.records.evidence import Observation
from upright.facts.store import DeploymentDir, Journal
from upright.facts.store.journal import NO_DIGEST, DamageError, last, lines, read_head, seal_line


def test_what_is_appended_is_read_back_in_order(directory: DeploymentDir) -> None:
    for number in range(5):
        directory.append(observation(number))
    assert list(directory.observations()) == [observation(number) for number in range(5)]


def test_an_empty_log_has_no_observations_and_no_last_line(directory: DeploymentDir) -> None:
    assert list(directory.observations()) == []
    assert directory.last() is None


def test_the_chain_can_be_followed_without_upright(directory: DeploymentDir, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the lines of Python that docs/store.md gives, as they stand there."""
    page = (Path(__file__).parents[4] / "docs/store.md").read_text()
    script = page.partition("```python\n")[2].partition("```")[0]
    for number in range(3):
        directory.append(observation(number))
    monkeypatch.chdir(directory.path)
    done = {"previous": NO_DIGEST}
    exec(script, done)
    assert done["previous"] == directory.last().digest
    directory.evidence_file.write_bytes(directory.evidence_file.read_bytes().replace(b"answer 1", b"answer 9"))
    with pytest.raises(AssertionError):
        exec(script, {})


def test_the_head_names_the_last_acknowledged_line(directory: DeploymentDir) -> None:
    receipt = [directory.append(observation(number)) for number in range(3)][-1]
    head = read_head(directory.evidence_file)
    assert head is not None
    assert (head.entries, head.digest, head.writer) == (3, receipt.digest, os.getpid())
    assert directory.last() == receipt


@pytest.mark.parametrize("keep", [1, 40, -78, -2, -1])
def test_a_torn_tail_is_set_aside_and_reported(
    directory: DeploymentDir, caplog: pytest.LogCaptureFixture, keep: int
) -> None:
    directory.append(observation(1))
    whole = directory.evidence_file.read_bytes()
    torn = _next_line(directory)[:keep]
    directory.evidence_file.write_bytes(whole + torn)
    assert list(directory.observations()) == [observation(1)]  # a reader leaves the torn part alone
    with directory.writer() as journal:
        assert journal.repaired is not None
        assert journal.repaired.torn_bytes == len(torn)
        journal.append(observation(3))
    assert (directory.path / "evidence.torn-1").read_bytes() == torn
    assert "torn line that was never acknowledged" in caplog.text
    assert [item.check for item in directory.observations()] == ["check-1", "check-3"]


def test_every_torn_tail_is_kept(directory: DeploymentDir) -> None:
    for number in (1, 2):
        with directory.evidence_file.open("ab") as file:
            file.write(b'{"seq":%d' % number)
        with directory.writer() as journal:
            assert journal.repaired is not None
    assert sorted(path.name for path in directory.path.glob("evidence.torn-*")) == [
        "evidence.torn-1",
        "evidence.torn-2",
    ]


@pytest.mark.parametrize("size", [1, 65_400, 65_536, 200_000, 1_100_000])
def test_the_last_line_is_found_whatever_its_size(directory: DeploymentDir, size: int) -> None:
    for number in (1, 2, 3):
        directory.append(observation(number, response={"text": "x" * size}))
    line = directory.last()
    assert line is not None
    assert line.seq == 3
    assert len(line.content["response"]["text"]) == size


def test_opening_reads_the_last_block_only(directory: DeploymentDir, monkeypatch: pytest.MonkeyPatch) -> None:
    with directory.writer() as journal:
        for number in range(2_000):
            monkeypatch.setattr(os, "fdatasync", lambda _: None)
            journal.append(observation(number))
    assert directory.evidence_file.stat().st_size > 900_000
    asked: list[int] = []
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, count, at: asked.append(count) or real(fd, count, at))
    with directory.writer():
        pass
    assert asked == [65_536]


def test_a_second_writer_is_told_who_writes(directory: DeploymentDir) -> None:
    with directory.writer(), pytest.raises(StoreError, match=f"being written by process {os.getpid()}"):
        directory.writer()


def test_the_lock_ends_with_its_process(directory: DeploymentDir) -> None:
    script = f"""
import os, sys
from pathlib import Path
from upright.facts.store import Journal
journal = Journal(Path({str(directory.evidence_file)!r}))
os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", script], check=False, env=os.environ)
    assert done.returncode == -9
    directory.append(observation(1))


def test_single_appends_wait_for_each_other(directory: DeploymentDir) -> None:
    script = f"""
from pathlib import Path
from tests.unit.facts.store.samples import observation
from upright.facts.store import DeploymentDir
for number in range(20):
    DeploymentDir(Path({str(directory.path)!r})).append(observation(number))
"""
    root = Path(__file__).parents[4]
    paths = os.pathsep.join([str(root), str(root / "src")])
    writers = [
        subprocess.Popen([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": paths}) for _ in range(2)
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    assert len(list(directory.observations())) == 40


def test_a_failed_write_leaves_the_log_as_it_was(directory: DeploymentDir) -> None:
    directory.append(observation(1))
    before = directory.evidence_file.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 300, limits[1]))  # the write stops in the middle
    try:
        with pytest.raises(StoreError, match="cannot be written: File too large"):
            directory.append(observation(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert directory.evidence_file.read_bytes() == before
    directory.append(observation(3))
    assert [item.check for item in directory.observations()] == ["check-1", "check-3"]


def test_an_interrupted_write_leaves_the_log_as_it_was(
    directory: DeploymentDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    with directory.writer() as journal:
        journal.append(observation(1))
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", _interrupt)
            with pytest.raises(KeyboardInterrupt):
                journal.append(observation(2))
        journal.append(observation(3))
    assert [item.check for item in directory.observations()] == ["check-1", "check-3"]


def test_a_log_that_cannot_be_put_back_is_not_written_again(
    directory: DeploymentDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    with directory.writer() as journal:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", _fail)
            patch.setattr(os, "ftruncate", _fail)
            with pytest.raises(StoreError, match="Input/output error"):
                journal.append(observation(1))
        with pytest.raises(StoreError, match="Bad file descriptor"):
            journal.append(observation(2))


def test_a_line_that_was_not_synced_is_synced_before_the_head_names_it(
    directory: DeploymentDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory.append(observation(1))
    directory.evidence_file.write_bytes(directory.evidence_file.read_bytes() + _next_line(directory))
    before = read_head(directory.evidence_file)
    heads = []
    monkeypatch.setattr(os, "fdatasync", lambda _: heads.append(read_head(directory.evidence_file)))
    with directory.writer():
        assert heads == [before]
    after = read_head(directory.evidence_file)
    assert before is not None
    assert after is not None
    assert (before.entries, after.entries) == (1, 2)


def test_nothing_is_appended_after_acknowledged_lines_were_removed(directory: DeploymentDir) -> None:
    for number in range(3):
        directory.append(observation(number))
    kept = directory.evidence_file.read_bytes().splitlines(keepends=True)[:2]
    directory.evidence_file.write_bytes(b"".join(kept))
    with pytest.raises(StoreError, match="ends at entry 2, but 3 were acknowledged"):
        directory.append(observation(4))


def test_nothing_is_appended_after_a_damaged_line(directory: DeploymentDir) -> None:
    directory.append(observation(1))
    directory.evidence_file.write_bytes(directory.evidence_file.read_bytes().replace(b"passed", b"failed"))
    with pytest.raises(RecordError, match="the last line was changed") as caught:
        directory.append(observation(2))
    assert caught.value.hint == f"upright tools store check {directory.path}"


def test_reading_notices_a_changed_line(directory: DeploymentDir) -> None:
    for number in range(3):
        directory.append(observation(number))
    directory.evidence_file.write_bytes(directory.evidence_file.read_bytes().replace(b"answer 1", b"answer 9"))
    with pytest.raises(RecordError, match="line 2 was changed"):
        list(directory.observations())


def test_an_entry_of_a_newer_schema_is_refused_with_a_hint(
    directory: DeploymentDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Observation, "schema_version", 7)
    directory.append(observation(1))
    monkeypatch.undo()
    with pytest.raises(RecordError, match="observation schema 7") as caught:
        list(directory.observations())
    assert caught.value.hint is not None
    assert "upgrade upright" in caught.value.hint


@given(texts=st.lists(st.text(max_size=60), max_size=6), tail=st.binary(max_size=80).filter(lambda b: b"\n" not in b))
def test_any_text_comes_back_and_any_tail_is_repaired(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], tail: bytes
) -> None:
    path = tmp_path_factory.mktemp("log") / "evidence.jsonl"
    with Journal(path) as journal:
        for number, text in enumerate(texts):
            journal.append(observation(number, response={"text": text}))
    with path.open("ab") as file:
        file.write(tail)
    with Journal(path) as journal:
        assert (journal.repaired is not None) == bool(tail)
        journal.append(observation(99))
    found = last(path)
    assert found is not None
    assert found.seq == len(texts) + 1
    directory = DeploymentDir(path.parent)
    assert [item.response for item in directory.observations()][:-1] == [{"text": text} for text in texts]


def _interrupt(_: int) -> None:
    raise KeyboardInterrupt


def _fail(*_: object) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def _next_line(directory: DeploymentDir) -> bytes:
    """The line that the next append would write."""
    before = directory.evidence_file.read_bytes()
    head = (directory.path / "evidence.head").read_bytes()
    directory.append(observation(2))
    line = directory.evidence_file.read_bytes()[len(before) :]
    directory.evidence_file.write_bytes(before)
    (directory.path / "evidence.head").write_bytes(head)
    return line


def test_reading_notices_a_line_that_does_not_follow_the_one_before_it(directory: DeploymentDir) -> None:
    """Each line is whole by its own digest; only the link between them is wrong."""
    for number in range(3):
        directory.append(observation(number))
    path = directory.evidence_file
    first, second, third = path.read_bytes().splitlines(keepends=True)
    read = list(lines(path))[1]
    relinked, _ = seal_line(2, NO_DIGEST, read.kind, read.schema, read.content)
    assert relinked.rstrip() != second.rstrip()
    path.write_bytes(first + relinked.rstrip() + b"\n" + third)
    with pytest.raises(DamageError, match=r"line 2.*does not follow the line before it"):
        list(lines(path))
