"""The habits of records, and the pages that are generated of them; every field of every record: scripts/lint-text."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from upright.facts.records.fields import field_doc, field_docs

ROOT = Path(__file__).parents[2]


def test_a_field_is_explained_where_it_is_inherited() -> None:
    from upright.facts.records.plan import Plan

    assert field_doc(Plan, "made_from") == "`kind:sha256` of each record that this one was made from."
    assert field_doc(Plan, "nothing") is None
    assert list(field_docs(Plan)) == list(Plan.model_fields)


def test_the_generated_pages_are_current() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/generate-docs", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"run scripts/generate-docs and commit what it writes\n{done.stderr}"
