"""Names of tensors: all that the GGUF library lists are known; the names in our own rows: scripts/lint-rows."""

from __future__ import annotations

import pytest

from upright.models.reading.tensor_names import families, gguf_classifier, hf_classifier


@pytest.mark.parametrize("name", ["", "x", "model.layers.x.y", "blk.1.", "model.layers.1.wonder.weight", "\n"])
def test_an_unknown_name_stays_unknown(name: str) -> None:
    assert not hf_classifier(None, 61).place(name).known
    assert not gguf_classifier(61).place(name).known


def test_all_names_of_the_gguf_library_are_known() -> None:
    """llama.cpp's own list of tensor names, for the architectures that upright is made for."""
    from gguf.constants import MODEL_ARCH, MODEL_ARCH_NAMES, MODEL_TENSORS, TENSOR_NAMES

    ours = {name for family in families().values() for name in family.gguf_architectures}
    checked = 0
    for architecture in MODEL_ARCH:
        if MODEL_ARCH_NAMES[architecture] in ours:
            for tensor in MODEL_TENSORS[architecture]:
                name = TENSOR_NAMES[tensor].format(bid=3) + ".weight"
                assert gguf_classifier(None).place(name).known, name
                checked += 1
    assert checked > 100
