"""Every term that a page prints has an entry: `upright explain TERM`."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from upright.catalog.explaining import explain
from upright.cli.main import cli
from upright.errors import CatalogError

PAGES = (
    "plan kimi-k2.6 --box 8x-rtx-pro-6000-server --why",
    "plan kimi-k2.6 --box 2x-rtx-pro-6000-max-q-epyc-9175f",
    "plan glm-5.2 --box hgx-b200 --why",
    "plan minimax-m2.7 --box 8x-h200",
    "plan gpt-oss-120b --box dgx-spark",
    "render kimi-k2.6 --box 8x-rtx-pro-6000-server --explain",
)
_TERM = re.compile(r"(?<![\w/.-])[A-Z]{2,}[A-Za-z0-9]*(?![\w/-])")
UNITS = {"API", "CPU", "GB", "GFLOP", "GPU", "GPUs", "MB", "RAM", "TB"}
NAMES = {"NVIDIA", "RTX", "PRO", "SYS", "UD", "GLM", "DGX"}


@pytest.mark.parametrize("words", PAGES)
def test_every_term_of_a_page_is_explained(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    page = CliRunner().invoke(cli, words.split(), prog_name="upright").stdout
    terms = {term for term in _TERM.findall(page) if "_" not in term} - UNITS - NAMES
    assert "KV" in terms or "MLA" in terms
    assert [term for term in sorted(terms) if not _known(term)] == []


def _known(term: str) -> bool:
    """As it stands, or without the number of its ranks: `TP8`."""
    for name in (term, term.rstrip("0123456789")):
        try:
            explain(name)
        except CatalogError:
            continue
        return True
    return False
