"""The catalogue has what people ask for, and a row without a source is refused; every row: scripts/lint-rows."""

from __future__ import annotations

import pytest

from upright.base.errors import CatalogError
from upright.facts import catalog
from upright.facts.catalog import loader


@pytest.mark.parametrize("kind", list(catalog.KINDS))
def test_a_row_without_a_source_is_refused(kind: str, tmp_path) -> None:
    file = tmp_path / f"{kind}.yaml"
    file.write_text("- id: bare\n  grade: A\n  sources: []\n")
    with pytest.raises(CatalogError) as caught:
        loader.rows_of_file(kind, file)
    assert "row bare" in caught.value.message
    assert str(file) in caught.value.message


def test_the_catalogue_has_what_people_ask_for() -> None:
    assert len(catalog.gpus()) >= 12
    for count, edition in [(n, e) for n in (1, 2, 4, 8) for e in ("workstation", "server", "max-q")]:
        assert catalog.box(f"{count}x-rtx-pro-6000-{edition}").gpu_count == count
    for name in ("1x-rtx-5090", "2x-rtx-5090", "8x-rtx-5090", "dgx-spark", "hgx-h200", "hgx-b200", "laptop"):
        assert catalog.box(name)
