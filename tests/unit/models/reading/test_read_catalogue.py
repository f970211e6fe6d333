"""read() on a name of the catalogue: offline, and it says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from upright.base.errors import ReadError
from upright.facts import catalog
from upright.models.reading import read

GIB = 2**30


def test_a_catalogue_name_is_a_model_on_the_catalogues_word() -> None:
    model = read("kimi-k2.6")
    assert (model.basis, model.files, model.path) == ("catalog", (), None)
    assert model.architecture.family == "kimi-k2"
    experts = sum(line.bytes for line in model.weights if line.group == "routed_experts")
    assert experts / GIB == pytest.approx(531.56, abs=0.01)


def test_a_quant_of_a_catalogue_name() -> None:
    assert read("kimi-k2.6:IQ3_K").tensor_bytes / GIB == pytest.approx(460, abs=0.1)
    with pytest.raises(ReadError, match="no quantisation NONE"):
        read("kimi-k2.6:NONE")


@pytest.mark.parametrize("name", [row.id for row in catalog.models()])
def test_every_row_is_a_model(name: str) -> None:
    model = read(name)
    built = model.architecture
    assert model.weights
    if model.basis == "derived":
        layers = {line.layer for line in model.weights if line.layer is not None and line.group != "draft"}
        assert layers == set(range(built.layers))
    else:
        assert built.family is not None
        assert sum(kind.layers for kind in built.attention) == built.layers


def test_an_unknown_name_says_what_would_be_right() -> None:
    with pytest.raises(ReadError, match="kimi-k9 is no file") as caught:
        read("kimi-k9")
    assert "near: kimi-k" in str(caught.value.hint)
    assert "upright catalog" in str(caught.value.hint)


@pytest.mark.parametrize("content", [b"{}", b'{"schema": "plan/2"}', b""])
def test_a_file_that_is_no_model_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "g.json").write_bytes(content)
    with pytest.raises(ReadError, match=r"g\.json is no model: neither GGUF nor safetensors"):
        read(str(tmp_path / "g.json"))
