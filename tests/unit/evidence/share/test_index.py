"""An index of pointers: built by parts, read in three files, and refused wherever a mirror lies."""

from __future__ import annotations

import gzip
import http.server
import json
import random
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import Upright
from tests.unit.evidence.share.tampering import FOLDER, recorded
from upright.base.errors import RecordError, UsageError
from upright.evidence.share.index_building import build_index, read_pointers
from upright.evidence.share.index_head import HEAD
from upright.evidence.share.index_reading import PinnedIndex, search
from upright.evidence.share.pointers import MOST_POINTERS, Pointer, bin_of, packed, pointer_of, shard_key
from upright.evidence.share.signing import fingerprints

AT = "2026-11-16T12:00:00.000+00:00"


def pointer(number: int, model: str = "kimi-k2.6", gpu: str = "rtx-pro-6000", gpus: int = 8) -> Pointer:
    return Pointer(
        model=model, gpu=gpu, gpus=gpus, engine="vllm", engine_version="0.32.0", level="consistent",
        tokens_per_second=60.0 + number % 9, at=AT, identity=f"{number:064x}",
        url=f"https://example.org/{number}.bundle.json", signer=None,
    )  # fmt: skip


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    for name in ("keeper", "stranger"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", folder / name], check=True)
    return folder


@pytest.fixture
def folder(tmp_path: Path, keys: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path / "home"))
    build_index(tmp_path / "index", [pointer(1), pointer(2), pointer(3, "glm-5")], key=keys / "keeper", at=AT)
    return tmp_path / "index"


class Mirror(http.server.SimpleHTTPRequestHandler):
    """Serves files as they are; `lies` has what it says instead, `endless` what never ends."""

    lies: dict[str, bytes]
    endless: frozenset[str]
    asked: list[str]
    folder: Path

    def do_GET(self) -> None:
        self.asked.append(self.path)
        name = self.path.lstrip("/")
        file = self.folder / name
        content = self.lies.get(name) or (file.read_bytes() if file.is_file() else None)
        if content is None and name not in self.endless:
            self.send_error(404)
            return
        self.send_response(200)
        if name not in self.endless:
            self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()
        try:
            self.wfile.write(content or b"")
            while name in self.endless:
                self.wfile.write(b"0" * 65536)
        except OSError:
            pass  # the client has had enough

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def served(folder: Path, **lies: object) -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []
    handler = type("Serving", (Mirror,), {"folder": folder, "asked": asked, "lies": {}, "endless": frozenset(), **lies})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", asked
        finally:
            server.shutdown()
            thread.join()


def of(url: str, keys: Path, who: str = "keeper") -> PinnedIndex:
    return PinnedIndex(name="public", url=url, keys=tuple(fingerprints(keys / f"{who}.pub")))


def test_three_files_are_read_and_then_one(folder: Path, keys: Path) -> None:
    with served(folder) as (url, asked):
        answer = search(of(url, keys), "Kimi K2.6", "RTX PRO 6000", 8)
        assert [entry.identity[-1] for entry in answer.pointers] == ["2", "1"]
        assert (answer.reading.files, len(asked)) == (3, 3)
        assert answer.reading.bytes < 300_000
        assert search(of(url, keys), "kimi-k2.6", "rtx-pro-6000", 8).reading.files == 1
    offline = search(of(url, keys), "kimi-k2.6", "rtx-pro-6000", 8, offline=True)
    assert offline.pointers == answer.pointers
    assert (offline.reading.files, offline.reading.offline) == (0, True)
    with pytest.raises(UsageError, match="never read"):
        search(of("http://127.0.0.1:9/other", keys), "kimi-k2.6", None, 0, offline=True)


def test_what_is_not_there_is_an_answer_too(folder: Path) -> None:
    index = PinnedIndex(name="mine", url=str(folder), keys=())
    assert search(index, "no-such-model", None, 0).pointers == ()


def test_a_build_touches_only_its_shard(folder: Path, keys: Path) -> None:
    before = {file: file.read_bytes() for file in folder.rglob("*.gz")}
    built = build_index(folder, [pointer(1), pointer(4)], key=keys / "keeper", at=AT)
    assert (built.version, built.added, built.pointers) == (2, 1, 4)
    assert (built.shards_written, built.bins_written) == (1, 1)
    assert all(file.read_bytes() == content for file, content in before.items()), "what was written is never changed"
    assert len(list(folder.rglob("*.gz"))) == len(before) + 2


def test_a_long_shard_has_several_files_and_the_full_ones_stay(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    build_index(folder, [pointer(number) for number in range(MOST_POINTERS + 5)], key=None, at=AT)
    full = {file.name for file in (folder / "shards").iterdir()}
    assert len(full) == 2
    built = build_index(folder, [pointer(MOST_POINTERS + 7)], key=None, at=AT)
    assert built.shards_written == 1
    answer = search(PinnedIndex(name="mine", url=str(folder), keys=()), "kimi-k2.6", "rtx-pro-6000", 8)
    assert (len(answer.pointers), answer.earlier) == (6, MOST_POINTERS)


def test_the_same_pointers_give_the_same_shards(tmp_path: Path) -> None:
    names = []
    for place in ("one", "two"):
        build_index(tmp_path / place, [pointer(1), pointer(2)], key=None, at=AT)
        names.append(sorted(file.name for file in (tmp_path / place).rglob("*.gz")))
    assert names[0] == names[1]


def test_a_revoked_one_keeps_its_place_and_says_why(folder: Path, keys: Path) -> None:
    index = PinnedIndex(name="mine", url=str(folder), keys=())
    build_index(folder, [], key=keys / "keeper", at=AT, revoke={pointer(1).identity: "its author took it back"})
    revoked = {entry.identity[-1]: entry.revoked for entry in search(index, "kimi-k2.6", "rtx-pro-6000", 8).pointers}
    assert revoked == {"1": "its author took it back", "2": None}
    with pytest.raises(UsageError, match="revoked already"):
        build_index(folder, [], key=keys / "keeper", at=AT, revoke={pointer(1).identity: "again"})
    build_index(folder, [pointer(1)], key=keys / "keeper", at=AT)
    assert search(index, "kimi-k2.6", "rtx-pro-6000", 8).pointers[-1].revoked, "it does not come back"


def parts_of(folder: Path) -> tuple[str, str]:
    """The bin and the shard of the model that is asked for."""
    key = shard_key("kimi-k2.6", "rtx-pro-6000", 8)
    number = bin_of(key)
    sha = json.loads((folder / HEAD).read_bytes())["signed"]["bins"][number]
    bin_path = f"bins/{number}-{sha}.json.gz"
    shard = json.loads(gzip.decompress((folder / bin_path).read_bytes()))["shards"][key][-1]["sha256"]
    return bin_path, f"shards/{shard}.jsonl.gz"


def test_a_keeper_who_files_pointers_under_another_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(Pointer, "key", property(lambda _: shard_key("kimi-k2.6", "rtx-pro-6000", 8)))
    build_index(tmp_path / "index", [pointer(1, "tiny")], key=None, at=AT)
    monkeypatch.undo()
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path / "home"))
    with pytest.raises(RecordError, match="pointers of another"):
        search(PinnedIndex(name="mine", url=str(tmp_path / "index"), keys=()), "kimi-k2.6", "rtx-pro-6000", 8)


@pytest.mark.parametrize("line", [b"[]", b"{}", b"nothing", b'{"model": 1}', b"[" * 5000])
def test_what_is_no_pointer(line: bytes) -> None:
    with pytest.raises(RecordError, match="no pointer"):
        pointer_of(line, "it")


def test_a_spelling_is_one_shard() -> None:
    assert (
        shard_key("Kimi K2.6", "RTX PRO 6000", 8)
        == shard_key("kimi-k2.6", "rtx-pro-6000", 8)
        != shard_key("kimi-k2.6", None, 0)
    )


def test_a_person_from_a_bundle_to_another_persons_search(upright: Upright, keys: Path, tmp_path: Path) -> None:
    """Point, build, add, search, show, fetch: every verb, as people type it."""
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/one.bundle.json").write_bytes(recorded(FOLDER / "01.json.gz"))
    with served(tmp_path) as (url, _):
        line = upright("index", "point", "kept/one.bundle.json", "--url", f"{url}/kept/one.bundle.json")
        assert line.returncode == 0, line.stderr
        (tmp_path / "new.jsonl").write_text(line.stdout)
        built = upright("index", "build", "public", "new.jsonl", "--key", keys / "keeper")
        assert built.stdout == "version 1: 1 added, 1 pointers; 1 files new\n", built.stderr
        added = upright("index", "add", "public", f"{url}/public", "--key", keys / "keeper.pub")
        assert added.returncode == 0, added.stderr
        found = upright("index", "search", "tiny-kimi", "--index", "public", "--json")
        assert found.returncode == 0, found.stderr
        (answer,) = json.loads(found.stdout)
        identity = answer["pointers"][0]["identity"]
        assert (answer["files_read"], answer["pointers"][0]["level"]) == (3, "consistent")
        assert identity in upright("index", "show", identity[:12]).stdout
        fetched = upright("index", "fetch", identity[:12])
        assert fetched.returncode == 0, fetched.stderr
        assert fetched.stdout.startswith("consistent: tiny-kimi on ")
        (tmp_path / "kept/one.bundle.json").write_bytes(b"{}")
        assert "not the bundle that the index names" in upright("index", "fetch", identity[:12]).stderr
    assert upright("index", "search", "tiny-kimi", "--index", "public", "--offline").returncode == 0
    assert upright("index", "search", "glm-5", "--index", "public", "--offline").returncode in (1, 2)


def test_a_signature_comes_along_and_is_verified_offline(upright: Upright, keys: Path, tmp_path: Path) -> None:
    """By the author's own key, over a real line; without it, or with another's, the index said something else."""
    kept = tmp_path / "kept/one.bundle.json"
    kept.parent.mkdir()
    kept.write_bytes(recorded(FOLDER / "01.json.gz"))
    for who in ("stranger", "keeper"):
        (tmp_path / "kept/one.bundle.json.sig").unlink(missing_ok=True)
        subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-f", keys / who, "-n", "upright-bundle", kept], check=True)
        (tmp_path / f"{who}.sig").write_bytes((tmp_path / "kept/one.bundle.json.sig").read_bytes())
    with served(tmp_path) as (url, _):
        line = upright("index", "point", kept, "--url", f"{url}/kept/one.bundle.json")
        assert line.returncode == 0, line.stderr
        (tmp_path / "new.jsonl").write_text(line.stdout)
        assert upright("index", "build", "public", "new.jsonl", "--key", keys / "keeper").returncode == 0
        assert upright("index", "add", "public", f"{url}/public", "--key", keys / "keeper.pub").returncode == 0
        found = json.loads(upright("index", "search", "tiny-kimi", "--index", "public", "--json").stdout)
        identity = found[0]["pointers"][0]["identity"]
        shutil.copy(tmp_path / "stranger.sig", tmp_path / "kept/one.bundle.json.sig")
        assert "signer is not what the index says" in upright("index", "fetch", identity).stderr
        (tmp_path / "kept/one.bundle.json.sig").unlink()
        assert "one.bundle.json.sig answers 404" in upright("index", "fetch", identity).stderr
        assert not list(tmp_path.glob("*.bundle.json*")), "nothing is left of what was refused"
        shutil.copy(tmp_path / "keeper.sig", tmp_path / "kept/one.bundle.json.sig")
        for _ in range(2):
            fetched = upright("index", "fetch", identity)
            assert fetched.returncode == 0, fetched.stderr
    brought = tmp_path / f"{identity[:12]}.bundle.json"
    verified = upright("verify", brought, "--key", keys / "keeper.pub", "--json")
    assert verified.returncode == 0, verified.stderr
    assert json.loads(verified.stdout)["signed_by"] == next(iter(fingerprints(keys / "keeper.pub")))


def test_files_of_pointers_are_read_line_by_line(tmp_path: Path) -> None:
    chosen = random.Random(1).sample(range(1000), 20)
    lines = b"".join(gzip.decompress(packed([pointer(number)])) for number in chosen)
    (tmp_path / "all.jsonl").write_bytes(lines)
    assert [int(entry.identity, 16) for entry in read_pointers([tmp_path / "all.jsonl"])] == chosen
