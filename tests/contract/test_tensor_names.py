"""Every row that maps tensor names must know the real names it lists, and put them where it says."""

from __future__ import annotations

from typing import Any

import pytest

from upright.models.reading.names import Namer, families, family_of, gguf_namer, hf_namer
from upright.models.reading.rows import row_files, rows

LAYERS = {"deepseek-v3": 61, "kimi-k2": 61, "deepseek-v32": 61, "glm4-moe": 92, "glm-dsa": 78}


def seen() -> list[Any]:
    cases = []
    for path in (*row_files("families"), "hf_names.yaml", "gguf_names.yaml"):
        content = rows(path)
        assert content["seen"], f"{path} lists no real names"
        cases += [pytest.param(path, entry, id=f"{path}: {entry['name']}") for entry in content["seen"]]
    return cases


def namer(path: str) -> Namer:
    if path == "gguf_names.yaml":
        return gguf_namer(None)
    row = rows(path)
    return hf_namer(families().get(row.get("id")), LAYERS.get(row.get("id")))


@pytest.mark.parametrize(("path", "entry"), seen())
def test_a_seen_name_is_placed_as_the_row_says(path: str, entry: dict[str, Any]) -> None:
    place = namer(path).place(entry["name"])
    assert (place.group, place.layer, place.known) == (entry["group"], entry["layer"], True)


@pytest.mark.parametrize("path", row_files("families"))
def test_a_family_names_its_sources_and_is_found_by_its_architectures(path: str) -> None:
    row = rows(path)
    assert row["sources"]
    assert path == f"families/{row['id']}.yaml"
    for name in (*row["hf_architectures"], *row["gguf_architectures"]):
        family = family_of(name)
        assert family is not None
        assert family.id == row["id"]


@pytest.mark.parametrize("name", ["", "x", "model.layers.x.y", "blk.1.", "model.layers.1.wonder.weight", "\n"])
def test_an_unknown_name_stays_unknown(name: str) -> None:
    assert not hf_namer(None, 61).place(name).known
    assert not gguf_namer(61).place(name).known


def test_all_names_of_the_gguf_library_are_known() -> None:
    """llama.cpp's own list of tensor names, for the architectures that upright is made for."""
    from gguf.constants import MODEL_ARCH, MODEL_ARCH_NAMES, MODEL_TENSORS, TENSOR_NAMES

    ours = {name for family in families().values() for name in family.gguf_architectures}
    checked = 0
    for architecture in MODEL_ARCH:
        if MODEL_ARCH_NAMES[architecture] in ours:
            for tensor in MODEL_TENSORS[architecture]:
                name = TENSOR_NAMES[tensor].format(bid=3) + ".weight"
                assert gguf_namer(None).place(name).known, name
                checked += 1
    assert checked > 100
