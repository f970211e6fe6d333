"""read() on a real GGUF file."""

from __future__ import annotations

import json
from pathlib import Path

import gguf as library
import pytest

from tests.conftest import Upright
from tests.sparse_models import HIDDEN, K2_KEYS, VOCABULARY, write_gguf
from upright.base.errors import ReadError
from upright.models.reading import read
from upright.models.reading.blobs import BlobWindow, LocalBlob
from upright.models.reading.gguf import parse


def test_the_tiny_kimi_is_what_it_is(tiny_model: Path) -> None:
    model = read(str(tiny_model))
    assert model.name == "tiny-kimi"
    assert model.architecture.context_limit_tokens == 8704
    (mla,) = model.architecture.attention
    assert (mla.kind, mla.layers, mla.kv_lora_rank, mla.rope_head_dim, mla.nope_head_dim) == ("mla", 4, 64, 32, 32)
    assert model.chat_template is True
    assert model.unknown == ()
    experts = [line for line in model.weights if line.group == "routed_experts"]
    assert [line.layer for line in experts] == [1, 2, 3]
    assert {line.dtype for line in experts} == {"Q8_0"}


def test_every_byte_of_the_file_is_accounted_for(tiny_model: Path) -> None:
    (file,) = read(str(tiny_model)).files
    assert file.header_bytes + file.tensor_bytes + file.padding_bytes == tiny_model.stat().st_size


def test_the_gguf_library_agrees_tensor_by_tensor(tiny_model: Path) -> None:
    ours = parse(BlobWindow(LocalBlob(tiny_model), 4096)).tensors
    theirs = library.GGUFReader(tiny_model).tensors
    assert [(t.name, t.shape, t.dtype, t.start, t.end - t.start) for t in ours] == [
        (t.name, tuple(int(n) for n in t.shape), t.tensor_type.name, int(t.data_offset), int(t.n_bytes)) for t in theirs
    ]


def test_the_first_read_may_be_of_any_size(tiny_model: Path) -> None:
    whole = parse(BlobWindow(LocalBlob(tiny_model), 1 << 20))
    for first_bytes in (1, 7, 24, 1000):
        assert parse(BlobWindow(LocalBlob(tiny_model), first_bytes)) == whole


@pytest.mark.parametrize("kept", [0, 3, 10, 100, 20_000, 34_303, 34_304, 500_000])
def test_a_truncated_file_is_a_read_error(tiny_model: Path, tmp_path: Path, kept: int) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(tiny_model.read_bytes()[:kept])
    with pytest.raises(ReadError, match=r"broken\.gguf"):
        read(str(broken))


@pytest.mark.parametrize(
    ("named", "name"),
    [
        ("Kimi K2.6", "Kimi K2.6"),
        ("  Kimi\r\n\tK2.6\n", "Kimi K2.6"),
        ("Kimi \u6708\u4e4b\u6697\u9762", "Kimi \u6708\u4e4b\u6697\u9762"),
        ("Kimi\x1b[2J\x1b]0;owned\x07", "file"),
        ("Kimi\x00", "file"),
        ("Kimi\x9b31m", "file"),
        ("Kimi\u202e6.2K", "file"),
        (" \n", "file"),
        (26, "file"),
    ],
)
def test_only_a_printable_name_is_taken_from_the_header(tmp_path: Path, named: str | int, name: str) -> None:
    tensor = ("token_embd.weight", "F32", (HIDDEN, VOCABULARY))
    write_gguf(tmp_path / "file.gguf", K2_KEYS | {"general.name": named}, [tensor])
    assert read(str(tmp_path / "file.gguf")).name == name


def test_the_command_prints_the_record_and_the_next_command(upright: Upright, tiny_model: Path) -> None:
    done = upright("read", tiny_model, "--json")
    assert (done.returncode, done.stderr) == (0, f"next: upright plan {tiny_model}\n")
    assert json.loads(done.stdout)["record"] == "model"


def test_a_missing_file_is_two_lines_and_exit_code_2(upright: Upright) -> None:
    done = upright("read", "nowhere.gguf")
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "hint:" in done.stderr
