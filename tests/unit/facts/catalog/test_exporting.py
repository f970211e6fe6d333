"""What is exported is complete, named by its content, and can be laid over another catalogue."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests.conftest import Upright
from upright.facts.catalog.exporting import INDEX, export_files
from upright.facts.catalog.loader import KINDS, rows, rows_of_file


@pytest.mark.slow
def test_every_kind_comes_back_as_it_was(tmp_path: Path) -> None:
    files = export_files("1.0")
    index = json.loads(files.pop(INDEX))
    assert set(index["kinds"]) == set(KINDS)
    for kind, entry in index["kinds"].items():
        content = files.pop(entry["file"])
        assert hashlib.sha256(content).hexdigest() == entry["sha256"]
        assert entry["sha256"].startswith(entry["file"].rpartition("-")[2].removesuffix(".json"))
        (tmp_path / "theirs.yaml").write_bytes(content)
        read = {row.id: row for row in rows_of_file(kind, tmp_path / "theirs.yaml", "user")}
        ours = rows(kind)
        assert read.keys() == ours.keys()
        same = {"owner", "file"}
        assert all(read[name].model_dump(exclude=same) == ours[name].model_dump(exclude=same) for name in ours)
    assert not files


def test_the_same_rows_make_the_same_names() -> None:
    assert export_files("1.0") == export_files("1.0")
    assert set(export_files("1.0")) == set(export_files("2.0")), "only the index tells who wrote it"


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_written_twice_nothing_moves(upright: Upright, tmp_path: Path, words: list[str]) -> None:
    assert upright("catalog", "export", "-o", "served", *words).returncode == 0
    first = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "served").iterdir()}
    assert len(first) == len(KINDS) + 1
    done = upright("catalog", "export", "-o", "served", *words)
    again = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "served").iterdir()}
    assert {name for name in first if first[name] != again[name]} == {INDEX}
    assert "next: upright catalog list" in done.stderr
    (tmp_path / "taken").write_text("a file")
    assert upright("catalog", "export", "-o", "taken", *words).returncode == 2
