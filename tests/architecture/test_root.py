"""The root of the repository is a page that people read: nothing lies there that a command wrote in passing."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = {
    "AGENTS.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", "SECURITY.md",
    "constraints.txt", "hatch_build.py", "pyproject.toml", "requirements.txt", "requirements-dev.txt",
}  # fmt: skip


def test_every_file_in_the_root_has_a_reason() -> None:
    files = {path.name for path in ROOT.iterdir() if path.is_file() and not path.name.startswith(".")}
    assert files - FILES == set(), (
        "written by a command that was tried here? a page's sessions run in a folder of theirs"
    )
