"""Where an engine's files are found, and what of them is taken. Wheels of a few bytes, a server on loopback."""

from __future__ import annotations

import io
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from upright.base.errors import EngineError, UsageError
from upright.proof.kernels import find_source, interpreter, sources
from upright.proof.kernels.interpreter import look
from upright.proof.kernels.ranged_file import RangedFile

FILES = {
    "vllm/__init__.py": b"",
    "vllm/ops.py": b"one = 1\n",
    "vllm/_C.so": bytes(range(256)) * 8192,
    "vllm/layers/fused_moe/configs/E=8,N=64,device_name=X.json": b"{}",
    "vllm-0.9.dist-info/METADATA": b"Version: 0.9\n",
}
KEPT = sorted(name for name in FILES if not name.endswith(".so"))


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path / "home"))


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / "vllm-0.9-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        for name, content in FILES.items():
            file.writestr(name, content)
    return path


def names(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def test_of_a_wheel_only_what_can_hold_kernels_is_unpacked(wheel: Path) -> None:
    found = find_source("vllm", source=str(wheel))
    assert (found.version, found.installed, names(found.root)) == ("0.9", False, KEPT)
    assert find_source("vllm", source=str(wheel)).root == found.root
    assert not list(found.root.parent.glob(".unpacking-*"))


def test_a_directory_may_be_the_package_or_what_holds_it(wheel: Path) -> None:
    root = find_source("vllm", source=str(wheel)).root
    for place in (root, root / "vllm"):
        found = find_source("vllm", source=str(place))
        assert (found.root, found.version, found.installed) == (root, "0.9", True)


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        ({"engine": "llama.cpp"}, "no Triton kernels"),
        ({"engine": "vllm"}, "which vllm"),
        ({"engine": "vllm", "source": "/nowhere"}, "neither a directory nor a wheel"),
        ({"engine": "vllm", "source": "."}, "does not hold vllm"),
        ({"engine": "vllm", "version": "newest"}, "newest is not a version"),
    ],
)
def test_words_that_are_off(words: dict[str, str], cause: str) -> None:
    with pytest.raises(UsageError, match=cause):
        find_source(**words)


def test_another_engines_wheel_and_another_version_are_named(wheel: Path) -> None:
    with pytest.raises(UsageError, match="is not a wheel of sglang"):
        find_source("sglang", source=str(wheel))
    with pytest.raises(UsageError, match=r"is vllm 0\.9, not 0\.10"):
        find_source("vllm", source=str(wheel), version="0.10")


def test_a_torn_wheel_is_an_error_and_leaves_nothing(wheel: Path, tmp_path: Path) -> None:
    wheel.write_bytes(wheel.read_bytes()[:1000])
    with pytest.raises(EngineError, match="cannot be unpacked"):
        find_source("vllm", source=str(wheel))
    assert not list((tmp_path / "home/kernels/sources").iterdir())


class _Ranges(BaseHTTPRequestHandler):
    content = b""
    sent = 0
    ranged = True

    def do_GET(self) -> None:
        size = len(self.content)
        first, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
        start = max(0, size - int(last)) if not first else int(first)
        stop = size if not first else min(size, int(last) + 1)
        piece = self.content[start:stop]
        self.send_response(206 if type(self).ranged else 200)
        if type(self).ranged:
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{size}")
        self.send_header("Content-Length", str(len(piece)))
        self.end_headers()
        self.wfile.write(piece)
        type(self).sent += len(piece)

    def log_message(self, *_args: object) -> None: ...


@pytest.fixture
def url(wheel: Path) -> Iterator[str]:
    _Ranges.content, _Ranges.sent, _Ranges.ranged = wheel.read_bytes() + b"", 0, True
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Ranges)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/{wheel.name}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_release_is_read_by_ranges(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_wheel_url", lambda _engine, _version: url)
    monkeypatch.setattr("upright.proof.kernels.ranged_file.TAIL_BYTES", 4096)
    found = find_source("vllm", version="0.9")
    assert names(found.root) == KEPT
    assert (found.root / "vllm/ops.py").read_bytes() == FILES["vllm/ops.py"]
    assert _Ranges.sent < len(_Ranges.content) / 10  # 2 MB of binary stay where they are


def test_a_ranged_file_reads_as_any_file(url: str) -> None:
    with RangedFile(url) as file:
        whole = io.BufferedReader(file).read()
    assert whole == _Ranges.content


def test_an_index_without_ranges_says_what_to_do(url: str) -> None:
    _Ranges.ranged = False
    with pytest.raises(EngineError, match="answers 200 to a ranged read") as caught:
        RangedFile(url)
    assert caught.value.hint == "download the wheel: --source WHEEL"


def test_a_python_without_triton_is_an_error_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UPRIGHT_KERNELS_PYTHON", raising=False)
    if look(sys.executable, "this Python").triton is None:
        with pytest.raises(EngineError, match="no Triton in") as caught:
            interpreter()
        assert ".[kernels]" in str(caught.value.hint)


@pytest.mark.parametrize("place", ["/nowhere/at/all", "."])
def test_an_environment_that_is_none(place: str) -> None:
    with pytest.raises(UsageError, match=r"no Python at|no Python environment"):
        interpreter(place)
