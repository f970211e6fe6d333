"""Hostile headers: only ReadError, little memory, little time, and no file outside the directory."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import upright.facts.catalog
from tests.conftest import TINY_MODEL
from tests.sparse_models import K26_CONFIG, gguf_header, safetensors_header
from upright.base.errors import ReadError
from upright.models.reading import read

ROOT = Path(__file__).parents[2]
MEGABYTE = 1_000_000


@pytest.mark.timing
@pytest.mark.timeout(300)
@pytest.mark.parametrize("form", ["gguf", "safetensors"])
@pytest.mark.parametrize("cases", [5_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_mutated_headers(form: str, cases: int) -> None:
    """In a process of its own, so that its memory is its own."""
    program = [sys.executable, str(ROOT / "scripts/fuzz-headers"), "--cases", str(cases), "--format", form]
    done = subprocess.run(program, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    result = json.loads(done.stdout)
    print(result)
    assert result["read"] > cases // 100, "the mutations break everything: nothing behind the first check was reached"
    assert result["refused"] > cases // 2


def tensor(name: str, start: int, end: int, dtype: str = "U8", shape: str | None = None) -> str:
    shape = shape if shape is not None else f"[{end - start}]"
    return f'{json.dumps(name)}:{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{start},{end}]}}'


def with_length(text: str | bytes, data: int = 0, claimed: int | None = None) -> bytes:
    raw = text if isinstance(text, bytes) else text.encode()
    return (len(raw) if claimed is None else claimed).to_bytes(8, "little") + raw + b"\0" * data


A, B = tensor("a", 0, 4), tensor("b", 4, 8)
SAFETENSORS: dict[str, bytes] = {
    "empty file": b"",
    "seven bytes": b"\x10\0\0\0\0\0\0",
    "header of no length": with_length(""),
    "header longer than the file": with_length("{" + A + "}", 4, claimed=1000),
    "header of 2^63 bytes": with_length("{}", claimed=2**63),
    "header of 60 MB that is not there": with_length("{}", claimed=60 * MEGABYTE),
    "truncated data": with_length("{" + A + "," + B + "}", 7),
    "bytes after the last tensor": with_length("{" + A + "," + B + "}", 9),
    "hole between tensors": with_length("{" + A + "," + tensor("b", 5, 9) + "}", 9),
    "overlapping tensors": with_length("{" + A + "," + tensor("b", 2, 6) + "}", 6),
    "the same bytes twice": with_length("{" + A + "," + tensor("b", 0, 4) + "}", 4),
    "duplicate name": with_length("{" + A + "," + tensor("a", 4, 8) + "}", 8),
    "duplicate name, one escaped": with_length("{" + A + ',"\\u0061":' + tensor("a", 4, 8)[4:] + "}", 8),
    "duplicate field": with_length('{"a":{"dtype":"U8","dtype":"I8","shape":[4],"data_offsets":[0,4]}}', 4),
    "duplicate metadata": with_length('{"__metadata__":{},"__metadata__":{},' + A + "}", 4),
    "metadata of numbers": with_length('{"__metadata__":{"a":1},' + A + "}", 4),
    "offsets backwards": with_length("{" + tensor("a", 4, 0, shape="[4]") + "}", 4),
    "negative offsets": with_length('{"a":{"dtype":"U8","shape":[4],"data_offsets":[-4,0]}}', 4),
    "offset of 2^64": with_length("{" + tensor("a", 0, 2**64, shape="[18446744073709551616]") + "}", 4),
    "shape that does not fit": with_length("{" + tensor("a", 0, 4, shape="[5]") + "}", 4),
    "shape of 400 digits": with_length("{" + tensor("a", 0, 4, shape="[" + "9" * 400 + "]") + "}", 4),
    "shape of nothing": with_length("{" + tensor("a", 0, 4, shape="[,4]") + "}", 4),
    "shape of a boolean": with_length("{" + tensor("a", 0, 1, shape="[true]") + "}", 1),
    "shape of floats": with_length("{" + tensor("a", 0, 4, shape="[4.0]") + "}", 4),
    "unknown type": with_length("{" + tensor("a", 0, 4, dtype="F7") + "}", 4),
    "half a byte": with_length("{" + tensor("a", 0, 2, dtype="F4", shape="[3]") + "}", 2),
    "deeply nested": with_length('{"a":' + "[" * 100_000, 0),
    "deeply nested objects": with_length('{"a":' * 50_000, 0),
    "not JSON": with_length("{'a': 1}", 0),
    "an array": with_length("[" + A[4:] + "]", 4),
    "text after the end": with_length("{" + A + "} {}", 4),
    "the end in the middle": with_length("{" + A + "}" + B + "," + tensor("c", 8, 12) + "}", 12),
    "the end, then more": with_length("{" + A + "," + B + "}," + tensor("c", 8, 12) + "}", 12),
    "no comma": with_length("{" + A + B + "}", 8),
    "comma at the end": with_length("{" + A + ",}", 4),
    "name that is not UTF-8": with_length(b'{"\xff\xfe":' + tensor("a", 0, 4)[4:].encode() + b"}", 4),
    "name that is half a surrogate": with_length('{"\\ud800":' + tensor("a", 0, 4)[4:] + "}", 4),
    "control character in a name": with_length(b'{"a\x01":' + tensor("a", 0, 4)[4:].encode() + b"}", 4),
    "UTF-16": with_length(("{" + A + "}").encode("utf-16"), 4),
    "a pickle": b"\x80\x04\x95" + b"\0" * 100,
    "half a million empty tensors": with_length("{" + ",".join(tensor(str(n), 0, 0) for n in range(500_000)) + "}"),
    "name of 10 MB": with_length('{"' + "x" * (10 * MEGABYTE) + '":' + "[" + "}"),
    "metadata of 20 MB": with_length('{"__metadata__":{"a":"' + "x" * (20 * MEGABYTE) + '"},' + A + "}", 3),
}


def gguf(keys: bytes = b"", key_count: int = 0, infos: bytes = b"", count: int = 0, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, count, key_count) + keys + infos


def string(raw: bytes, length: int | None = None) -> bytes:
    return struct.pack("<Q", len(raw) if length is None else length) + raw


def info(name: bytes, shape: tuple[int, ...] = (32,), kind: int = 0, offset: int = 0) -> bytes:
    return string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


ARCHITECTURE = string(b"general.architecture") + struct.pack("<I", 8) + string(b"llama")


def array(key: bytes, kind: int, count: int, body: bytes = b"") -> bytes:
    return string(key) + struct.pack("<IIQ", 9, kind, count) + body


GGUF: dict[str, bytes] = {
    "empty file": b"",
    "four bytes": b"GGUF",
    "other magic": b"GGML" + b"\0" * 100,
    "version 1": gguf(version=1),
    "version 4": gguf(version=4),
    "big-endian": b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
    "no architecture": gguf(),
    "2^64 - 1 tensors": gguf(count=2**64 - 1),
    "2^64 - 1 keys": gguf(key_count=2**64 - 1),
    "key of 2^63 bytes": gguf(string(b"a", 2**63), 1),
    "key of 65 kB": gguf(string(b"a" * 65_536) + struct.pack("<II", 4, 1), 1),
    "key that is not UTF-8": gguf(string(b"\xff\xfe") + struct.pack("<II", 4, 1), 1),
    "duplicate key": gguf(ARCHITECTURE * 2, 2),
    "value of unknown type": gguf(string(b"a") + struct.pack("<I", 99), 1),
    "string of 2^40 bytes": gguf(string(b"a") + struct.pack("<IQ", 8, 2**40), 1),
    "array of 2^62 numbers": gguf(array(b"a", 4, 2**62), 1),
    "array of 2^62 strings": gguf(array(b"a", 8, 2**62), 1),
    "array of ten million empty strings": gguf(array(b"a", 8, 10_000_000, b"\0" * 80), 1),
    "deeply nested arrays": gguf(array(b"a", 9, 1, struct.pack("<IQ", 9, 1) * 10_000), 1),
    "array of unknown type": gguf(array(b"a", 77, 1), 1),
    "alignment of nothing": gguf(string(b"general.alignment") + struct.pack("<II", 4, 0), 1),
    "alignment of 3": gguf(string(b"general.alignment") + struct.pack("<II", 4, 3), 1),
    "alignment of 2^31": gguf(string(b"general.alignment") + struct.pack("<II", 4, 2**31), 1),
    "alignment of text": gguf(string(b"general.alignment") + struct.pack("<I", 8) + string(b"32"), 1),
    "truncated data": gguf(ARCHITECTURE, 1, info(b"t", (1024,)), 1),
    "overlapping tensors": gguf(ARCHITECTURE, 1, info(b"a") + info(b"b", offset=64), 2) + b"\0" * 4096,
    "the same bytes twice": gguf(ARCHITECTURE, 1, info(b"a") + info(b"b"), 2) + b"\0" * 4096,
    "duplicate name": gguf(ARCHITECTURE, 1, info(b"a") + info(b"a", offset=128), 2) + b"\0" * 4096,
    "name that is not UTF-8": gguf(ARCHITECTURE, 1, info(b"\xc3\x28"), 1) + b"\0" * 4096,
    "no dimensions": gguf(ARCHITECTURE, 1, info(b"a", ()), 1) + b"\0" * 4096,
    "a thousand dimensions": gguf(ARCHITECTURE, 1, info(b"a", (1,) * 1000), 1) + b"\0" * 4096,
    "shape of 2^256": gguf(ARCHITECTURE, 1, info(b"a", (2**63,) * 4), 1) + b"\0" * 4096,
    "offset of 2^64 - 1": gguf(ARCHITECTURE, 1, info(b"a", offset=2**64 - 1), 1) + b"\0" * 4096,
    "unknown ggml type": gguf(ARCHITECTURE, 1, info(b"a", kind=9999), 1) + b"\0" * 4096,
    "half a block": gguf(ARCHITECTURE, 1, info(b"a", (33,), kind=2), 1) + b"\0" * 4096,
    "more tensors than there are": gguf(ARCHITECTURE, 1, info(b"a"), 400_000) + b"\0" * 4096,
    "no layers": gguf(ARCHITECTURE + string(b"llama.block_count") + struct.pack("<II", 4, 0), 2),
    "layers of text": gguf(ARCHITECTURE + string(b"llama.block_count") + struct.pack("<I", 8) + string(b"4"), 2),
    "four billion layers": gguf(ARCHITECTURE + string(b"llama.block_count") + struct.pack("<II", 4, 2**32 - 1), 2),
}


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Every path that is opened while the test runs; what is loaded once for good is loaded before."""
    read(str(TINY_MODEL))
    read("kimi-k2.6")
    paths: list[Path] = []
    real: Callable[..., int] = os.open

    def spy(path: str | Path, *arguments: Any, **named: Any) -> int:
        paths.append(Path(path).resolve())
        return real(path, *arguments, **named)

    monkeypatch.setattr(os, "open", spy)  # the door's own way
    return paths


@pytest.mark.parametrize("case", SAFETENSORS)
def test_hostile_safetensors(case: str, tmp_path: Path, opened: list[Path]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(K26_CONFIG))
    (tmp_path / "model.safetensors").write_bytes(SAFETENSORS[case])
    refused_quickly(tmp_path / "model.safetensors", opened)


@pytest.mark.parametrize("case", GGUF)
def test_hostile_gguf(case: str, tmp_path: Path, opened: list[Path]) -> None:
    (tmp_path / "model.gguf").write_bytes(GGUF[case])
    refused_quickly(tmp_path / "model.gguf", opened)


def refused_quickly(path: Path, opened: list[Path]) -> None:
    opened.clear()
    started = time.process_time()
    with pytest.raises(ReadError) as caught:
        read(str(path))
    assert time.process_time() - started < 1
    assert len(caught.value.message) < 400
    assert path.name in caught.value.message
    ours = Path(upright.facts.catalog.__file__).parent
    assert [place for place in opened if not place.is_relative_to(path.parent) and ours not in place.parents] == []


LARGE = {
    "60 MB of spaces": "b'{' + b' ' * 60_000_000 + b'}'",
    "60 MB of brackets": "b'{\"a\":' + b'[' * 60_000_000",
    "60 MB of metadata": "b'{\"__metadata__\":{\"a\":\"' + b'x' * 60_000_000 + b'\"}}'",
    "60 MB of metadata pairs": 'b\'{"__metadata__":{\' + b\'"a":"b",\' * 7_000_000',
    "60 MB of empty tensors": 'b\'{\' + b\'"a":{"dtype":"U8","shape":[],"data_offsets":[0,0]},\' * 1_000_000',
    "220,000 tensors of 200 letters": 'b\'{\' + b\',\'.join(b\'"%0200d":{"dtype":"U8","shape":[0],\''
    "b'\"data_offsets\":[0,0]}' % n for n in range(220_000)) + b'}'",
}
CHILD = """
import json, sys, time
from pathlib import Path
from typing import Any
from upright.base.errors import ReadError
from upright.models.reading import read
started = time.process_time()
try:
    read(sys.argv[1])
    said = "read"
except ReadError as error:
    said = error.message
megabytes = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024
print(json.dumps({"said": said, "seconds": time.process_time() - started, "megabytes": megabytes}))
"""


@pytest.mark.timing
@pytest.mark.parametrize("case", LARGE)
def test_large_hostile_headers_stay_within_256_megabytes(case: str, tmp_path: Path) -> None:
    """In a process of its own. What is broken is refused within a second of CPU; what is well-formed is read first."""
    text = eval(LARGE[case])
    (tmp_path / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text)
    (tmp_path / "config.json").write_text(json.dumps(K26_CONFIG))
    program = [sys.executable, "-c", CHILD, str(tmp_path / "model.safetensors")]
    done = subprocess.run(program, capture_output=True, text=True, timeout=100, check=False)
    result = json.loads(done.stdout)
    print(case, result)
    assert result["megabytes"] < 256
    assert result["said"] == "read" or "kinds" in result["said"] or result["seconds"] < 1


CONFIGS: dict[str, bytes] = {
    "empty": b"",
    "not an object": b"[]",
    "deeply nested": b'{"a":' * 100_000,
    "UTF-16": json.dumps(K26_CONFIG).encode("utf-16"),
    "no architectures": b'{"num_hidden_layers": 2}',
    "architectures of numbers": b'{"architectures": [1], "num_hidden_layers": 2}',
    "layers of text": b'{"architectures": ["A"], "num_hidden_layers": "2"}',
    "negative layers": b'{"architectures": ["A"], "num_hidden_layers": -2}',
    "2^70 layers": b'{"architectures": ["A"], "num_hidden_layers": 1180591620717411303424}',
    "no heads": b'{"architectures": ["A"], "num_hidden_layers": 2, "hidden_size": 2, "vocab_size": 2, '
    b'"num_attention_heads": 0}',
    "too long": b'{"a": "' + b"x" * 5_000_000 + b'"}',
}


@pytest.mark.parametrize("case", CONFIGS)
def test_hostile_config(case: str, tmp_path: Path) -> None:
    head, size_bytes = safetensors_header([("a", "U8", (4,))])
    (tmp_path / "model.safetensors").write_bytes(head.ljust(size_bytes, b"\0"))
    (tmp_path / "config.json").write_bytes(CONFIGS[case])
    with pytest.raises(ReadError, match=r"config\.json"):
        read(str(tmp_path))


def test_an_index_that_points_outside_is_not_followed(tmp_path: Path, opened: list[Path]) -> None:
    """The index file is not needed, so it cannot lead anywhere."""
    head, size_bytes = safetensors_header([("a", "U8", (4,))])
    (tmp_path / "model.safetensors").write_bytes(head.ljust(size_bytes, b"\0"))
    (tmp_path / "config.json").write_text(json.dumps(K26_CONFIG))
    index = {"weight_map": {"a": "../../../../etc/passwd", "b": "/etc/shadow"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    opened.clear()
    assert read(str(tmp_path)).tensor_bytes == 4
    ours = Path(upright.facts.catalog.__file__).parent
    assert {path.name for path in opened if ours not in path.parents} == {"model.safetensors", "config.json"}


def test_a_split_that_claims_99999_parts(tmp_path: Path) -> None:
    head, size_bytes = gguf_header({"general.architecture": "llama"}, [])
    path = tmp_path / "m-00001-of-99999.gguf"
    path.write_bytes(head.ljust(size_bytes, b"\0"))
    with pytest.raises(ReadError, match="one of 99999 files"):
        read(str(path))


def test_a_split_with_a_missing_part(tmp_path: Path) -> None:
    (tmp_path / "m-00001-of-00002.gguf").write_bytes(gguf())
    with pytest.raises(ReadError, match=r"m-00002-of-00002\.gguf is missing"):
        read(str(tmp_path / "m-00001-of-00002.gguf"))


@pytest.mark.parametrize("name", ["/dev/zero", "/dev/full", "/proc/self/mem"])
def test_devices_are_not_read(name: str) -> None:
    with pytest.raises(ReadError):
        read(name)
