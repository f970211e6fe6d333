"""The site, built once for every browser that looks at it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import served
from tests.conftest import ROOT
from upright.app.site.publishing import publish, site_parts

PARTS = ROOT / ".cache/site-parts"
AXE = PARTS / "axe-core-4.14.0.tgz"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    absent = [name for name in (AXE.name, *(part.file for part in site_parts())) if not (PARTS / name).is_file()]
    assert not absent, f"scripts/get-site-parts --axe fetches {', '.join(absent)}"
    folder = tmp_path_factory.mktemp("site")
    publish(folder, PARTS, first="none")
    return folder


@pytest.fixture(scope="session")
def address(site: Path) -> Iterator[str]:
    with served(site) as address:
        yield address
