"""A box that is a number of GPUs."""

from __future__ import annotations

import pytest

from upright.base.errors import CatalogError, UsageError
from upright.facts import catalog
from upright.planning.probing import box_of


@pytest.mark.parametrize(
    ("name", "box", "path"),
    [
        ("1x 4090", "1x-rtx-4090", None),
        ("8 x H100", "8x-h100-sxm", "NV18"),
        ("4x-rtx-5090", "4x-rtx-5090", None),
        ("8x-h100", "8x-h100-sxm", "NV18"),
        ("4xA100", "4x-a100-sxm-80gb", "NV12"),
    ],
)
def test_so_many_of_a_gpu(name: str, box: str, path: str | None):
    made = catalog.box_record(name)
    assert made.name == box
    assert len(made.gpus) == int(name[0])
    assert made.memory_bytes.value is None, "nobody said"
    assert {link.path for link in made.links} == ({path} if path else set())


def test_what_a_row_describes_is_that_row():
    assert catalog.box("8x RTX PRO 6000") is catalog.box("8x-rtx-pro-6000")
    assert catalog.box("8x-rtx-pro-6000-server").name == "8x RTX PRO 6000 Blackwell Server Edition"
    assert catalog.box("2x-rtx-5090").notes[0].startswith("No peer-to-peer access")


def test_the_boards_of_the_rows_and_of_the_gpus_agree():
    for row in catalog.boxes():
        links = catalog.gpu(row.gpu).board_nvlinks if row.gpu else None
        assert row.nvlinks == (links.value if links else 0), row.id


@pytest.mark.parametrize("name", ["17x-rtx-4090", "0x-rtx-4090", "4x-rtx-9090", "4x", "x-4090"])
def test_what_is_none(name: str):
    with pytest.raises(CatalogError):
        catalog.box(name)
    with pytest.raises(UsageError, match="is no box") as refused:
        box_of(name)
    assert "a number of GPUs is one too: 6x-rtx-4090" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("kind", "name", "first"),
    [
        ("boxes", "h100", ("8x-h100-sxm",)),
        ("boxes", "4x-rtx-9090", ("4x-rtx-5090", "4x-rtx-4090", "4x-rtx-3090")),
        ("boxes", "17x-gb10", ("16x-gb10",)),
        ("boxes", "Mac Studio M3 Ultra 512GB", ("m3-ultra",)),
        ("boxes", "framework-desktop-128gb", ("framework-desktop",)),
        ("models", "kimmi-k2.6", ("kimi-k2.6",)),
        ("models", "glm", ("glm-4.6", "glm-4.7")),
        ("models", "zzzzzz", ()),
    ],
)
def test_what_was_perhaps_meant(kind: str, name: str, first: tuple[str, ...]):
    found = catalog.near(kind, name)
    assert set(first) <= set(found)
    assert bool(first) == bool(found)
