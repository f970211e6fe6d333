"""No circle of imports. Nothing points up (lint-imports) and complexity is 12 (ruff): there are no other ceilings."""

from __future__ import annotations

import subprocess
import sys

from tests.conftest import ROOT


def test_no_module_imports_itself_through_others() -> None:
    told = subprocess.run(
        [sys.executable, ROOT / "scripts/measure-house", "--where"], capture_output=True, text=True, check=True
    ).stdout
    assert "circles 0\n" in told, [line for line in told.splitlines() if line.startswith("circle: ")]
