"""The files of the tiny model are what their README says, and the twins differ from them by their fault only."""

from __future__ import annotations

import hashlib
import json
import re
import time
from pathlib import Path
from types import SimpleNamespace

import gguf
import numpy
import pytest

from tests.conftest import ROOT, TINY_ASSETS, TINY_FOLDER, TINY_MODEL
from tests.twins import TWINS, bf16_tensors
from upright.flows.line import demo
from upright.models.reading import read


def test_the_files_are_those_that_the_readme_names():
    named = dict(
        re.findall(
            r"^\| `([^`]+)` \| [\d,]+ \| `([0-9a-f]{64})` \|$", (TINY_ASSETS / "README.md").read_text(), re.MULTILINE
        )
    )
    files = [path for path in TINY_ASSETS.rglob("*") if path.is_file() and path.name != "README.md"]
    digests = {str(path.relative_to(TINY_ASSETS)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    packed = f"../../../{demo.TINY_MODEL.relative_to(ROOT)}"
    assert named == {**digests, packed: hashlib.sha256(demo.TINY_MODEL.read_bytes()).hexdigest()}
    assert sum(path.stat().st_size for path in files) < 11_500_000


def test_all_formats_carry_the_trainers_template(trainer: SimpleNamespace):
    assert gguf.GGUFReader(TINY_MODEL).get_field("tokenizer.chat_template").contents() == trainer.template.TEMPLATE
    assert (TINY_FOLDER / "chat_template.jinja").read_text() == trainer.template.TEMPLATE


def test_both_formats_have_the_same_tokens():
    tokens = gguf.GGUFReader(TINY_MODEL).get_field("tokenizer.ggml.tokens").contents()
    data = json.loads((TINY_FOLDER / "tokenizer.json").read_text())
    known = {**data["model"]["vocab"], **{token["content"]: token["id"] for token in data["added_tokens"]}}
    assert {token: place for place, token in enumerate(tokens)} == known


def test_both_formats_hold_the_same_weights():
    """To the rounding of either: q8_0 has blocks of 32 with 8 bits, bf16 has 8 bits of mantissa."""
    ours = {
        tensor.name: gguf.dequantize(tensor.data, tensor.tensor_type) for tensor in gguf.GGUFReader(TINY_MODEL).tensors
    }
    theirs = dict(bf16_tensors((TINY_FOLDER / "model.safetensors").read_bytes()))
    for here, there in (
        ("token_embd.weight", "model.embed_tokens.weight"),
        ("blk.0.ffn_down.weight", "model.layers.0.mlp.down_proj.weight"),
        ("blk.3.attn_output.weight", "model.layers.3.self_attn.o_proj.weight"),
        ("blk.2.ffn_up_shexp.weight", "model.layers.2.mlp.shared_experts.up_proj.weight"),
    ):
        difference = numpy.abs(ours[here] - theirs[there]).max()
        assert difference < 0.02 * numpy.abs(theirs[there]).max(), here


def test_the_folder_reads_as_a_model_of_kimis_latent_sizes():
    model = read(str(TINY_FOLDER))
    (mla,) = model.architecture.attention
    assert (mla.kind, mla.layers, mla.kv_lora_rank, mla.rope_head_dim) == ("mla", 4, 512, 64)
    assert model.architecture.context_limit_tokens == 8704


@pytest.mark.parametrize("name", [name for name, twin in TWINS.items() if "gguf" in twin.formats and not twin.flags])
def test_a_gguf_twin_has_one_fault(name: str, tmp_path: Path):
    started = time.monotonic()
    twin = TWINS[name].gguf(tmp_path / f"{name}.gguf")
    assert time.monotonic() - started < 20
    assert twin.stat().st_size == TINY_MODEL.stat().st_size
    good, bad = gguf.GGUFReader(TINY_MODEL), gguf.GGUFReader(twin)
    changed = [a.name for a, b in zip(good.tensors, bad.tensors, strict=True) if not numpy.array_equal(a.data, b.data)]
    fields = [key for key in good.fields if good.fields[key].contents() != bad.fields[key].contents()]
    assert bool(changed) == bool(TWINS[name].weights)
    assert fields == (
        ["tokenizer.chat_template"] if TWINS[name].template else ["tokenizer.ggml.tokens"] if TWINS[name].tokens else []
    )
    assert len({tensor.split(".")[1 if name == "noise" else 2] for tensor in changed}) <= 1, changed


@pytest.mark.parametrize("name", [name for name, twin in TWINS.items() if "folder" in twin.formats])
def test_a_folder_twin_has_one_fault(name: str, tmp_path: Path):
    folder = TWINS[name].folder(tmp_path / name)
    changed = [path.name for path in TINY_FOLDER.iterdir() if path.read_bytes() != (folder / path.name).read_bytes()]
    assert len(changed) == 1
