"""What moved is told with its share, and a session is rewritten in the form that its page has."""

from __future__ import annotations

import pytest

from scripts.refreshing.moved import moved
from scripts.refreshing.sessions import aligned, refreshed

TABLE = "box,model,fits,decode\na,m,yes,60\na,n,no,\n"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (TABLE, TABLE, []),
        (TABLE, TABLE.replace("60", "63"), ["facts.csv: a m: decode 60 -> 63 (+5.0 %)"]),
        (TABLE, TABLE.replace("yes,60", "no,60"), ["facts.csv: a m: fits yes -> no"]),
        (TABLE, TABLE.replace("60", ""), ["facts.csv: a m: decode 60 -> nothing"]),
        (TABLE, TABLE + "a,o,no,\n", ["facts.csv: a o: is new"]),
        (TABLE, TABLE.replace("a,n,no,\n", ""), ["facts.csv: a n: is gone"]),
    ],
)
def test_cells_that_moved(before: str, after: str, told: list[str]):
    assert list(moved("facts.csv", before.encode(), after.encode())) == told


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("decode  1,000 tok/s\n", "decode  1,250 tok/s\n", ["page: line 1: 1,000 -> 1,250 (+25.0 %)"]),
        ("a\nb 9\n", "a\nb 10\nc\n", ["page: line 2: 1 lines -> 2 lines"]),
    ],
)
def test_lines_that_moved(before: str, after: str, told: list[str]):
    assert list(moved("page", before.encode(), after.encode())) == told


def test_files_that_came_and_went():
    assert list(moved("x", None, b"")) == ["x: is new"]
    assert list(moved("x", b"", None)) == ["x: is gone"]
    assert list(moved("x", b"\xff", b"\xff\xfe")) == ["x: 1 -> 2 bytes"]


@pytest.mark.parametrize(
    ("shown", "printed", "page"),
    [
        (["a 1", "b 2"], ["a 1", "b 3"], ["a 1", "b 3"]),
        (["a 1", "…", "z 2"], ["a 1", "b", "c", "z 3"], ["a 1", "…", "z 3"]),
        (["a 1", "…"], ["a 2", "b"], ["a 2", "…"]),
        (["for … a 1"], ["for me a 2"], ["for … a 2"]),
        (["a  9 x"], ["a 10 x"], ["a 10 x"]),
        (["a", "b 1"], ["a", "new", "b 2"], ["a", "new", "b 2"]),
        (["a", "old", "b 1"], ["a", "b 2"], ["a", "b 2"]),
        (["a 1", "said"], ["a 2", "told"], ["a 2", "told"]),
    ],
)
def test_a_session_keeps_its_form(shown: list[str], printed: list[str], page: list[str]):
    assert aligned(shown, printed) == page


def test_a_page_is_rewritten_and_what_ended_otherwise_is_left_to_a_person():
    page = "# P\n\n```console\n$ one\na 1\n$ two\nno 1\n[exit 1]\n$ three\nb 1\n```\n\n```text\n$ four\n```\n"
    ends = {"one": (0, ["a 2"]), "two": (1, ["no 2"]), "three": (1, ["b 2"])}
    text, strange = refreshed(page, ends.__getitem__)
    assert text == page.replace("a 1", "a 2").replace("no 1", "no 2")
    assert strange == ["$ three: exit code 1"]
