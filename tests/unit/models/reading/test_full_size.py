"""Full-size artifacts as sparse files, and what other libraries say of the same files."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import gguf as library
import pytest
from safetensors import safe_open

from tests.conftest import TINY_MODEL
from tests.sparse_models import K2_KEYS, k2_gguf_tensors, k2_vocabulary, write_gguf, write_k2_gguf, write_safetensors
from upright.facts.records.model import Model
from upright.models.reading import gguf, read, safetensors
from upright.models.reading.blobs import BlobWindow, LocalBlob

GIB = 2**30


def routed(model: Model) -> dict[int | None, int]:
    """Bytes of the routed experts by layer."""
    layers: dict[int | None, int] = {}
    for line in model.weights:
        if line.group == "routed_experts":
            layers[line.layer] = layers.get(line.layer, 0) + line.bytes
    return layers


def test_kimi_k2_with_q4_0_experts(tmp_path: Path) -> None:
    write_k2_gguf(tmp_path / "k2.gguf", "Q4_0")
    model = read(str(tmp_path / "k2.gguf"))
    assert model.size_bytes / GIB == pytest.approx(543.62, abs=0.005)
    assert model.files[0].tensors == 1096
    assert sum(routed(model).values()) / GIB == pytest.approx(531.56, abs=0.005)
    assert {round(size / GIB, 3) for size in routed(model).values()} == {8.859}
    assert set(routed(model)) == set(range(1, 61))
    assert not model.ik_only


def test_kimi_k2_with_iq3_k_experts(tmp_path: Path) -> None:
    write_k2_gguf(tmp_path / "k2.gguf", "IQ3_K")
    model = read(str(tmp_path / "k2.gguf"))
    assert sum(routed(model).values()) / GIB == pytest.approx(406.05, abs=0.005)
    assert model.ik_only


def test_the_published_mix_of_iq3_k_and_iq4_k(tmp_path: Path) -> None:
    """ubergarm's IQ3_K: IQ3_K for gate and up, IQ4_K for down; published as 460 GiB."""
    write_k2_gguf(tmp_path / "k2.gguf", "IQ3_K", "IQ4_K")
    model = read(str(tmp_path / "k2.gguf"))
    assert model.size_bytes / GIB == pytest.approx(460, abs=0.1)
    assert {round(size / GIB, 3) for size in routed(model).values()} == {7.465}
    assert {line.dtype for line in model.weights if line.group == "routed_experts"} == {"IQ3_K", "IQ4_K"}


@pytest.mark.parametrize("version", [2, 3])
def test_the_gguf_library_agrees_on_the_full_size_file(tmp_path: Path, version: int) -> None:
    path = tmp_path / "k2.gguf"
    write_gguf(path, K2_KEYS | k2_vocabulary(1024), k2_gguf_tensors("Q4_0", "Q6_K"), version=version)
    ours = gguf.parse(BlobWindow(LocalBlob(path), 1 << 16)).tensors
    theirs = library.GGUFReader(path).tensors
    assert [(t.name, t.shape, t.dtype, t.start, t.end - t.start) for t in ours] == [
        (t.name, tuple(map(int, t.shape)), t.tensor_type.name, int(t.data_offset), int(t.n_bytes)) for t in theirs
    ]


def test_the_safetensors_library_agrees_tensor_by_tensor(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    tensors = [
        ("model.embed_tokens.weight", "BF16", (64, 32)),
        ("a scalar", "F32", ()),
        ("nothing", "I64", (0, 7)),
        ('with "quotes" and \\ and ü', "F8_E4M3", (3, 5)),
        *((f"model.layers.0.mlp.experts.{n}.up_proj.weight_packed", "I32", (16, 4)) for n in range(50)),
    ]
    write_safetensors(path, tensors, {"format": "pt", "note": 'a "quoted" text'})
    header = safetensors.parse(BlobWindow(LocalBlob(path), 8))
    with safe_open(path, "np") as theirs:
        assert theirs.metadata() == header.metadata
        listed = {name: theirs.get_slice(name) for name in theirs.keys()}  # noqa: SIM118
        assert {t.name: (t.dtype, t.shape) for t in header.tensors} == {
            name: (entry.get_dtype(), tuple(entry.get_shape())) for name, entry in listed.items()
        }
        assert [t.name for t in header.tensors] == theirs.offset_keys()


def test_header_spelling_does_not_matter(tmp_path: Path) -> None:
    """Spaces, other orders of fields, metadata at the end: JSON all the same."""
    entries = {f"t{n}": {"shape": [2, 4], "data_offsets": [n * 16, n * 16 + 16], "dtype": "BF16"} for n in range(5)}
    compact = {name: {key: entry[key] for key in ("dtype", "shape", "data_offsets")} for name, entry in entries.items()}
    headers = []
    for number, text in enumerate((
        json.dumps(compact, separators=(",", ":")),
        json.dumps(compact, indent=2) + "   ",
        json.dumps(entries | {"__metadata__": {"a": "b"}}),
        json.dumps(compact, separators=(",", ":")).replace('"t3"', '"\\u00743"'),
    )):  # fmt: skip
        path = tmp_path / f"{number}.safetensors"
        path.write_bytes(len(text).to_bytes(8, "little") + text.encode())
        os.truncate(path, 8 + len(text) + 80)
        headers.append([t[:3] for t in safetensors.parse(BlobWindow(LocalBlob(path), 64)).tensors])
    assert all(header == headers[0] for header in headers)


@pytest.mark.slow
def test_a_vocabulary_of_163840_tokens_is_read_5_times_faster_than_by_the_gguf_library(tmp_path: Path) -> None:
    path = tmp_path / "k2.gguf"
    keys = K2_KEYS | k2_vocabulary(163_840)
    del keys["tokenizer.ggml.merges"]  # as long again: it would only make the library's turn longer
    write_gguf(path, keys, k2_gguf_tensors("Q4_0", "Q4_0"))
    ratios = []
    for _ in range(3):
        started = time.process_time()
        ours = gguf.parse(BlobWindow(LocalBlob(path), 1 << 20))
        mine = time.process_time() - started
        started = time.process_time()
        theirs = library.GGUFReader(path)
        ratios.append((time.process_time() - started) / mine)
        assert len(theirs.tensors) == len(ours.names)
        if ratios[-1] >= 5:
            break
    print(f"a header of {ours.header_bytes / 1e6:.1f} MB: {1000 * mine:.0f} ms, {ratios[-1]:.0f}x faster than gguf")
    assert ratios[-1] >= 5


@pytest.mark.engine
def test_llama_gguf_split_and_we_agree(llama_server: Path, tmp_path: Path) -> None:
    """A real split: the same weights, in parts."""
    import subprocess

    program = llama_server.parent / "llama-gguf-split"
    done = subprocess.run(
        [program, "--split-max-tensors", "30", TINY_MODEL, tmp_path / "tiny"], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    whole, parts = read(str(TINY_MODEL)), read(str(tmp_path / "tiny-00001-of-00003.gguf"))
    assert len(parts.files) == 3
    assert parts.weights == whole.weights
    for file in parts.files:
        assert file.header_bytes + file.tensor_bytes + file.padding_bytes == (tmp_path / file.name).stat().st_size
