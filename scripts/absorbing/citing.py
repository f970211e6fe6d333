"""A row's source (`vLLM 0.32.0 config/model.py:1565-1594`) -> the lines cited, and whether a release has them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from absorbing.release import Release, parsed

Standing = Literal["gone", "changed", "file changed"]
TITLES = {"vllm": "vllm", "sglang": "sglang", "ktransformers": "ktransformers", "llama.cpp": r"llama\.cpp"}
PATH = re.compile(r"(?P<path>[\w][\w./-]*\.(?:py|cpp|h|cu))(?::(?P<lines>\d+(?:-\d+)?(?:,\s?\d+(?:-\d+)?)*))?")
ANY_ENGINE = re.compile(
    r"\b(?:vllm|sglang|transformers|llama\.cpp|ik_llama\.cpp|ktransformers)\s+v?[\dab]", re.IGNORECASE
)


@dataclass(frozen=True)
class Citation:
    """A file, or lines of it, at a version."""

    version: str
    path: str
    lines: tuple[tuple[int, int], ...] = ()

    def held(self, older: Release, newer: Release) -> tuple[Standing, str] | None:
        """None if the newer release has what is cited; else `gone`, `changed` or `file changed`, and why."""
        before, after = located(older, self.path), located(newer, self.path)
        if before is None or (after is not None and older.digest(before) == newer.digest(after)):
            return None
        if after is None:
            return "gone", f"{before}, which it cites at {self.version}, is not in this release"
        if not self.lines or self.version not in (older.version, newer.version):
            if _same_meaning(older.text(before), newer.text(after)):
                return None
            return "file changed", f"{before} has changed ({_count(older.text(before), newer.text(after))} lines)"
        (anchor, path), (other, there) = (older, before), (newer, after)
        if self.version == newer.version:  # it was read in this release already: the same question, asked backwards
            (anchor, path), (other, there) = (other, there), (anchor, path)
        kept = "\n".join(_plain(other.text(there)))
        for first, last in self.lines:
            block = "\n".join(_plain("\n".join(anchor.text(path).splitlines()[first - 1 : last])))
            if block and block not in kept:
                return "changed", f"{path}:{first}-{last}, which it cites, is another text in {other.version}"
        return None


def citations(source: str, engine: str) -> Iterator[Citation]:
    """Files of this engine in one source of a row; those after another engine's name are that one's."""
    title = TITLES.get(engine, re.escape(engine))
    for part in re.finditer(rf"\b{title}(?: wheels?)?\s+v?(?P<version>\d[\w.]*\w)", source, re.IGNORECASE):
        following = ANY_ENGINE.search(source, part.end())
        for match in PATH.finditer(source, part.end(), following.start() if following else len(source)):
            spans = [span.strip().partition("-") for span in (match["lines"] or "").split(",") if span.strip()]
            lines = tuple((int(first), int(last or first)) for first, _, last in spans)
            yield Citation(part["version"], match["path"], lines)


def located(release: Release, path: str) -> str | None:
    """The one file whose path ends so."""
    if path in release.files:
        return path
    ending = [member for member in release.files if member.endswith(f"/{path}")]
    return ending[0] if len(ending) == 1 else None


def _plain(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]


def _count(older: str, newer: str) -> int:
    return len(set(_plain(older)) ^ set(_plain(newer)))


def _same_meaning(older: str, newer: str) -> bool:
    """Whether two files of Python differ in comments and layout alone."""
    before, after = parsed(older), parsed(newer)
    return before is not None and after is not None and ast.dump(before) == ast.dump(after)
