"""docs/settings.md names every variable of ours that a person can set."""

from __future__ import annotations

import re

from scripts.documents.settings import READ
from tests.conftest import ROOT

_OF_ITS_OWN = {"UPRIGHT_PATCH", "UPRIGHT_ROUTER_CHILD", "UPRIGHT_TRACE_STAND_IN"}
"""A prefix of options, and two by which a process of ours tells the next one something."""


def test_every_variable_that_is_read_has_its_line() -> None:
    code = (path.read_text(encoding="utf-8") for path in (ROOT / "src/upright").rglob("*.py"))
    read = {name for text in code for name in re.findall(r'"(UPRIGHT_[A-Z_]+)"', text)}
    assert read - _OF_ITS_OWN == set(READ)
    page = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in page for name in READ)
