"""Links inside README and docs lead somewhere, every page has its place, and questions are two clicks away."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

PAGES = [ROOT / f"{name}.md" for name in ("README", "SECURITY", "CONTRIBUTING", "ARCHITECTURE", "CHANGELOG")]
PAGES += sorted((ROOT / "docs").glob("*.md"))
_LINK = re.compile(r"(?<!`)\[[^\]\n]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```(?!\{).*?^```$", re.DOTALL | re.MULTILINE)
_TOCTREE = re.compile(r"```\{toctree\}\n(?::[^\n]*\n)*\n(.*?)```", re.DOTALL)
_INCLUDED = re.compile(r"```\{include\} (\S+)\n(?::[^\n]*\n)*```\n")


def text_of(page: Path) -> str:
    text = page.read_text()
    included = _INCLUDED.match(text)
    return text_of((page.parent / included[1]).resolve()) + text[included.end() :] if included else text


def links(page: Path) -> Iterator[str]:
    yield from _LINK.findall(_FENCE.sub("", page.read_text()))


def anchors(page: Path) -> set[str]:
    """As GitHub and MyST make them of headings."""
    headings = re.findall(r"^#{1,4} (.+)$", _FENCE.sub("", text_of(page)), re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


def in_toctrees() -> list[str]:
    return [name for block in _TOCTREE.findall((ROOT / "docs/index.md").read_text()) for name in block.split()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in links(page):
        place, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        target = (page.parent / place).resolve() if place else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_a_broken_link_would_be_seen() -> None:
    assert "no-such-heading" not in anchors(ROOT / "README.md")
    assert "where-next" in anchors(ROOT / "README.md")
    assert any(link.startswith("docs/") for link in links(ROOT / "README.md"))


def test_every_page_stands_once_in_the_navigation() -> None:
    assert sorted(in_toctrees()) == sorted(path.stem for path in (ROOT / "docs").glob("*.md") if path.stem != "index")


def test_the_list_for_programs_names_every_page() -> None:
    listed = re.findall(r"\]\(([a-z0-9-]+)\.html\)", (ROOT / "docs/llms.txt").read_text())
    assert listed == in_toctrees()


QUESTIONS = {
    "which model for my box?": ("recommending.md", "upright recommend --box"),
    "why did it crash?": ("diagnosing.md", "upright diagnose"),
    "how sure is 60 tok/s?": ("accuracy.md", "median error"),
    "how do I add a GPU?": ("extending.md", "catalog/gpus"),
    "is it safe to run?": ("security.md", "--trust-remote-code"),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_strangers_question_is_answered_in_two_clicks(question: str) -> None:
    """The front page's table is the first click; a page that it leads to may be the second."""
    answer, words = QUESTIONS[question]
    front = [link for link in links(ROOT / "docs/index.md") if link.endswith(".md")]
    second = {link.partition("#")[0] for name in front for link in links(ROOT / "docs" / name)}
    assert answer in front or answer in second
    assert words in text_of(ROOT / "docs" / answer)


def test_the_kernel_that_the_readme_shows_is_the_one_on_its_page() -> None:
    shown = (ROOT / "README.md").read_text().partition("```text\n$ upright tools kernels check")[2].partition("```")[0]
    page = (ROOT / "docs/kernels.md").read_text()
    assert shown.count("\n") >= 4
    assert [line for line in shown.splitlines()[1:] if line not in page] == []


def test_pictures_are_small_and_their_files_are_used() -> None:
    pictures = sorted((ROOT / "docs/pictures").iterdir())
    pages = "".join(page.read_text() for page in PAGES)
    assert [path.name for path in pictures if f"pictures/{path.name}" not in pages] == []
    assert [path.name for path in pictures if path.stat().st_size > 200_000] == []
