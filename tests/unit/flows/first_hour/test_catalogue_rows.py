"""A bundle -> rows of the catalogue as a change; what does not hold gives none."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.unit.evidence.share.tampering import cells, copied, seal
from upright.base.errors import RecordError
from upright.facts.catalog.loader import rows_of_file
from upright.facts.catalog.rows.words import MeasurementRow
from upright.facts.records.first_hour import FieldBundle, FieldTest
from upright.flows.first_hour.catalogue_rows import MEASUREMENTS, propose
from upright.flows.first_hour.field_bundle import open_field_bundle


def bundle_of(*statements: dict[str, Any]) -> FieldBundle:
    test = FieldTest(
        name="t", at="", upright="0", box="b", box_identity="x", gpus=(), budget_seconds=60, steps=()
    )  # fmt: skip
    return FieldBundle(test=test, statements=statements)


def test_rows_are_a_change_that_git_takes_and_the_catalogue_reads(tmp_path: Path) -> None:
    proposed = propose(bundle_of(copied()))
    assert proposed.refused == []
    (tmp_path / "change.diff").write_text(proposed.diff())
    if shutil.which("git") is None:
        pytest.skip("no git")
    subprocess.run(["git", "apply", "change.diff"], cwd=tmp_path, check=True)
    rows = rows_of_file("measurements", tmp_path / "src/upright/facts/catalog" / MEASUREMENTS, "user")
    assert len(rows) == len(proposed.rows[MEASUREMENTS]) > 0
    for row in rows:
        assert isinstance(row, MeasurementRow)
        assert row.decode_tokens_per_second
        assert row.sources[0].startswith("field test, statement sha256:")


def test_what_does_not_hold_gives_no_row() -> None:
    broken = copied()
    for cell in cells(broken):
        cell["output_tokens_per_second"] *= 3
    seal(broken)
    proposed = propose(bundle_of(broken))
    assert (proposed.diff(), len(proposed.refused)) == ("", 1)


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text("{}")
    with pytest.raises(RecordError):
        open_field_bundle(tmp_path / "b.json")
