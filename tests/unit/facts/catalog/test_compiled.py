"""Compiled rows are the rows: made from what the sources say now, or not used."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.conftest import ROOT
from upright.facts.catalog import compiled, loader

PATH = loader.OURS / "gpus.yaml"
TEXT = PATH.read_text(encoding="utf-8")
STARTS = """
import sys
sys.argv = ["upright", *sys.argv[1:]]
from upright.app.cli.main import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
sys.exit("yaml was parsed" if "yaml" in sys.modules else 0)
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(compiled, "KEPT", tmp_path / "compiled")
    return tmp_path / "compiled"


def test_every_kind_comes_back_as_it_was_parsed():
    for kind in loader.KINDS:
        for path, owner in loader.files(kind):
            text, parsed = path.read_text(encoding="utf-8"), loader.rows_of_file(kind, path, owner)
            compiled.keep_rows(path, text, parsed, anyway=True)
            assert compiled.kept_rows(path, text) == parsed
            assert loader.rows_of_file(kind, path, owner) == parsed


def test_a_source_that_changed_is_parsed(monkeypatch: pytest.MonkeyPatch):
    rows = loader.rows_of_file("gpus", PATH)
    compiled.keep_rows(PATH, TEXT, rows, anyway=True)
    assert compiled.kept_rows(PATH, TEXT + " ") is None
    monkeypatch.setattr(compiled, "_shape", lambda: b"rows have another field")
    assert compiled.kept_rows(PATH, TEXT) is None


@pytest.mark.parametrize("rest", [b"", b"\x80\x04", b"not a pickle", pickle.dumps(os.getcwd), pickle.dumps(print)])
def test_what_is_torn_or_names_another_class_is_parsed(place: Path, rest: bytes):
    rows = loader.rows_of_file("gpus", PATH)
    compiled.keep_rows(PATH, TEXT, rows, anyway=True)
    (file,) = place.iterdir()
    file.write_bytes(file.read_bytes()[:32] + rest)
    assert compiled.kept_rows(PATH, TEXT) is None
    assert loader.rows_of_file("gpus", PATH) == rows


def test_a_folder_that_cannot_be_written_is_no_concern(place: Path):
    place.write_text("no folder")
    compiled.keep_rows(PATH, TEXT, loader.rows_of_file("gpus", PATH), anyway=True)
    assert compiled.kept_rows(PATH, TEXT) is None


@pytest.mark.slow
def test_a_built_wheel_has_every_row_and_starts_without_yaml(tmp_path: Path):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed"), "UPRIGHT_HOME": str(tmp_path / "home")}
    for words in (
        ("plan", "kimi-k2.6", "--box", "8x-rtx-pro-6000-server"),
        ("render", "kimi-k2.6", "--box", "8x-rtx-pro-6000-server"),
        ("explain", "kv_cache"),
        ("explain", "--max-num-seqs"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", STARTS, *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, (words, done.stderr)
