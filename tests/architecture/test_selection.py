"""What `-m` leaves nothing of is not imported; nothing else is left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.selection import BY_FOLDER, leaves_nothing

FAST = "not engine and not slow and not timing"
SHELF = {
    "all.py": "pytestmark = pytest.mark.engine\n\ndef test_it(): ...\n",
    "listed.py": "pytestmark = [\n    pytest.mark.engine,\n    pytest.mark.slow,\n]\n\ndef test_it(): ...\n",
    "one.py": "@pytest.mark.engine\ndef test_it(): ...\n\n@pytest.mark.timing\ndef test_other(): ...\n",
    "none.py": "def test_it(): ...\n",
}


@pytest.mark.parametrize(("asked", "left"), [
    (FAST, {"one.py", "none.py"}),
    ("timing and not slow", {"one.py"}),
    ("engine and not slow", {"all.py", "one.py"}),
    ("slow", set(SHELF)),
    ("engine or slow", set(SHELF)),
    ("", set(SHELF)),
])  # fmt: skip
def test_files_of_which_something_is_left(asked: str, left: set[str], tmp_path: Path) -> None:
    for name, text in SHELF.items():
        (tmp_path / name).write_text(text)
    assert {name for name in SHELF if not leaves_nothing(asked, tmp_path / name)} == left


def test_marks_are_named_where_they_are_looked_for() -> None:
    """In the test's own file, but for those that tests/selection.py knows of."""
    ours = re.compile(r"\bmark\.(engine|vllm|kernels|timing)\b")
    elsewhere = {
        path.relative_to(ROOT / "tests").as_posix()
        for path in (ROOT / "tests").rglob("*.py")
        if not path.name.startswith("test_") and ours.search(path.read_text(encoding="utf-8"))
    }
    assert elsewhere == {f"{folder}/conftest.py" for folder in BY_FOLDER}
