"""A planted file: where a verb looks for a file is a device, a pipe, a socket, a folder, a link or 20 GB of holes."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tests import hostile_strings as hostile
from tests.measured import measured
from tests.poisoned import planted
from tests.unit.facts.store.samples import deployment
from upright.base.bounds.files import file_bytes, file_lines, head_text

NOT_PROMISED = (
    "an end of what the shell hands over (`<(command)`, /dev/stdin): it is read until it ends, within its bytes",
    "a bound on a disk that does not answer: a read that hangs in the kernel hangs the command",
)
KINDS = ("device", "link", "pipe", "socket", "folder", "holes", "loop")
RECORDS = (
    "deployment.json", "evidence.jsonl", "evidence.head", "recipe.json", "plan.json", "box.json", "model.json",
    "residuals.json", "diagnosis.json", "engine.log", "key", "workers", "change", "recipe-1.json", "benchmark.json",
)  # fmt: skip
LISTS = ("ps", "ps --json", "top --once")
VERBS = (
    "store check bad", "store repair bad --dry-run", "logs bad", "logs bad -n 3", "diagnose bad", "residuals bad",
    "connect bad", "bundle bad -o b.tar.gz", "bundle bad --statement -o b.json", "report bad -o page.html",
    "bench bad --dry-run", "restart bad --dry-run", "prove bad --dry-run", "down bad", "monitor bad -o monitoring",
)  # fmt: skip
TAKERS = (
    "report {}", "render {}", "check {}", "plan {}", "plan kimi-k2.6 --box {}", "up {} --dry-run", "diagnose {}",
    "residuals --log {}", "verify {}", "verify ok.json --signature {}", "verify ok.json --trust {}", "replay {}",
    "bundle --read {}", "fleet plan {}", "fleet render {} --into out", "fleet size {}", "field-test --rows {}",
    "bench --base-url http://127.0.0.1:9 --model m --workload agents --trace {}", "compare {} ok.json", "read {}",
    "bench --base-url http://127.0.0.1:9 --model m --key-file {}", "prove --base-url http://127.0.0.1:9 --key-file {}",
    "top --base-url http://127.0.0.1:9 --key-file {} --once", "explain {}", "calibrate {}", "index build out {}",
    "prove --base-url http://127.0.0.1:9 --model m --reference {}", "index check {}", "rehearse {}", "patch show {}",
)  # fmt: skip


def plant(kind: str, path: Path) -> None:
    """Holes take no room on the disk, where the disk knows holes."""
    path.unlink(missing_ok=True)
    if kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "link":
        outside = path.parent.parent.parent.parent / "outside"
        outside.write_text(deployment("bad").to_json())
        path.symlink_to(outside)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        here = Path.cwd()
        os.chdir(path.parent)  # a socket's name has at most 107 letters
        try:
            with socket.socket(socket.AF_UNIX) as bound:
                bound.bind(path.name)
        finally:
            os.chdir(here)
    elif kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path.name)
    else:
        with path.open("wb") as file:
            file.truncate(20 << 30)


def _one_line_each(talk: str) -> None:
    assert "Traceback" not in talk, talk[-3000:]
    assert "this is a bug" not in talk, talk[-3000:]
    assert hostile.complaint(talk) is None


@pytest.mark.promise("one bad file in a deployment's folder ends no list: it is one line, in bounded time and memory")
@pytest.mark.parametrize("kind", ["device", "pipe", "holes"])
def test_ps_lists_the_others(kind: str, tmp_path: Path):
    _with_bad_file(kind, "deployment.json", tmp_path)
    done = measured("ps", folder=tmp_path)
    assert (done.code, done.is_cheap()) == (0, True), done
    assert "good" in done.talk, done
    assert "bad" in done.talk, done
    _one_line_each(done.talk)


def _with_bad_file(kind: str, name: str, folder: Path) -> Path:
    """A whole deployment `good`, and `bad`, which has every record and one file that is none."""
    planted(folder / "home", "plain", folder)
    store = folder / "home/deployments"
    (store / "d").rename(store / "bad")
    (store / "good").mkdir()
    (store / "good/deployment.json").write_text(deployment("good").model_copy(update={"state": "stopped"}).to_json())
    plant(kind, store / "bad" / name)
    return store / "bad"


@pytest.mark.promise("one bad file in a deployment's folder ends no list: it is one line, in bounded time and memory")
@pytest.mark.parametrize(
    ("kind", "name", "verb"),
    [
        ("holes", "evidence.jsonl", "store check bad"),
        ("pipe", "engine.log", "residuals bad"),
        ("device", "recipe.json", "report bad -o page.html"),
    ],
)
def test_no_verb_waits_or_fills_memory(kind: str, name: str, verb: str, tmp_path: Path):
    _with_bad_file(kind, name, tmp_path)
    _looked_at(verb, tmp_path)


def _looked_at(verb: str, folder: Path) -> None:
    done = measured(*verb.split(), folder=folder)
    assert done.code in (0, 1, 2), (verb, done)
    assert done.is_cheap(), (verb, done)
    _one_line_each(done.talk)


@pytest.mark.promise("one bad file in a deployment's folder ends no list: it is one line, in bounded time and memory")
@pytest.mark.slow
@pytest.mark.timeout(900)  # 18 starts
@pytest.mark.parametrize(("kind", "name"), [(KINDS[at % len(KINDS)], name) for at, name in enumerate(RECORDS)])
def test_every_verb_and_every_planted_file(kind: str, name: str, tmp_path: Path):
    _with_bad_file(kind, name, tmp_path)
    for verb in (*LISTS, *VERBS):
        _looked_at(verb, tmp_path)


@pytest.mark.promise(
    "what is no regular file, or is longer than any, is refused in one line by every verb that takes files"
)
@pytest.mark.parametrize(
    ("taker", "kind"), [("diagnose {}", "device"), ("fleet plan {}", "pipe"), ("residuals --log {}", "holes")]
)
def test_a_file_that_is_none_is_refused(taker: str, kind: str, tmp_path: Path):
    _refused(taker, kind, tmp_path)


@pytest.mark.promise(
    "what is no regular file, or is longer than any, is refused in one line by every verb that takes files"
)
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("taker", TAKERS)
def test_every_verb_that_takes_a_file(taker: str, tmp_path: Path):
    for kind in ("device", "pipe", "socket", "holes", "loop", "folder"):
        place = tmp_path / kind
        place.mkdir()
        _refused(taker, kind, place)


def _refused(taker: str, kind: str, folder: Path) -> None:
    planted(folder / "home", "plain", folder)
    (folder / "ok.json").write_text((folder / "plan.json").read_text())
    (folder / "store").mkdir()
    for name in ("file.json", "file.log", "file.yaml", "file.gguf"):
        plant(kind, folder / "store" / name)
    for name in ("file.json", "file.yaml") if kind != "pipe" else ("file.json",):
        if (kind, taker.split()[0]) == ("holes", "diagnose"):
            continue  # a log may be as long as it likes: it is read, in bounded memory
        done = measured(*(word.replace("{}", str(folder / "store" / name)) for word in taker.split()), folder=folder)
        assert done.code in (1, 2), (taker, name, done)
        assert done.is_cheap(), (taker, name, done)
        _one_line_each(done.talk)


@pytest.mark.promise(
    "what is no regular file, or is longer than any, is refused in one line by every verb that takes files"
)
@pytest.mark.parametrize("kind", KINDS)
def test_the_door_itself(kind: str, tmp_path: Path):
    path = tmp_path / "a/b/c/file"
    path.parent.mkdir(parents=True)
    plant(kind, path)
    for read in (file_bytes, head_text, lambda path: list(file_lines(path, 1000)), lambda path: file_bytes(path, 1000)):
        if (read is head_text and kind == "holes") or (kind == "link" and read is not file_bytes):
            continue
        if kind == "link":
            assert file_bytes(path)
            with pytest.raises(OSError, match="it is a link"):
                file_bytes(path, own=True)
        else:
            with pytest.raises(OSError, match=r"regular file|longer than|levels of symbolic"):
                read(path)
