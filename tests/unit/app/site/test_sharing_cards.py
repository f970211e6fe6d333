"""The card of a link: a picture that any reader of PNG opens, and a page that says the same and leads on."""

from __future__ import annotations

import json
import struct
import zlib
from html.parser import HTMLParser

import pytest

from upright.app.site.first_answers import first_answer
from upright.app.site.link_previews import Canvas, card_files, card_picture, card_words, fitting_scale
from upright.app.site.publishing import POLICY

MODEL, BOX = "kimi-k2.6", "8x-rtx-pro-6000-workstation"


def rows_of(png: bytes) -> list[bytes]:
    """By the format's own words: chunks with their sums, then lines of palette numbers."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    at, chunks = 8, {}
    while at < len(png):
        (size,) = struct.unpack(">I", png[at : at + 4])
        kind, content = png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        assert struct.unpack(">I", png[at + 8 + size : at + 12 + size]) == (zlib.crc32(kind + content),)
        chunks[kind], at = content, at + 12 + size
    width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
    pixels = zlib.decompress(chunks[b"IDAT"])
    lines = [pixels[row * (width + 1) : (row + 1) * (width + 1)] for row in range(height)]
    assert all(line[0] == 0 and max(line) * 3 < len(chunks[b"PLTE"]) for line in lines)
    return [line[1:] for line in lines]


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.meta: dict[str, str] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = dict(attrs)
        name = said.get("property") or said.get("http-equiv")
        if tag == "meta" and name:
            self.meta[name] = said["content"] or ""


@pytest.fixture(scope="module")
def answer() -> dict[str, object]:
    answered: dict[str, object] = json.loads(first_answer(MODEL, BOX))
    return answered


def test_the_picture_is_of_the_size_that_cards_have_and_keeps_to_its_edges(answer: dict[str, object]):
    rows = rows_of(card_picture(answer))
    assert (len(rows[0]), len(rows)) == (1200, 630)
    ground = rows[0][0]
    assert {row[0] for row in rows} | {row[-1] for row in rows} == {ground}
    assert {*rows[-1]} == {ground}


def test_the_page_says_the_plan_and_leads_to_it(answer: dict[str, object]):
    files = dict(card_files(MODEL, BOX, answer, POLICY, "https://plan.example.org/"))
    meta = Tags(files[f"card/{MODEL}/{BOX}.html"].decode()).meta
    assert meta["og:title"] == f"Kimi-K2.6 on {BOX}: fits"
    assert meta["og:image"] == f"https://plan.example.org/card/{MODEL}/{BOX}.png"
    assert meta["refresh"] == f"0; url=../../#view=plan&model={MODEL}&box={BOX}"
    decode = answer["record"]["plans"][0]["speed"]["decode"]  # type: ignore[index]
    assert f"decode {decode['best']:,.0f} {decode['low']:,.0f}-{decode['high']:,.0f} tok/s" in meta["og:description"]


def test_what_does_not_fit_says_why():
    answered = json.loads(first_answer("kimi-k2.6", "1x-rtx-5090"))
    title, about = card_words(answered)
    assert "fits" not in title.rpartition(":")[2]
    assert about == "; ".join(objection["message"] for objection in answered["record"]["plans"][0]["objections"])
    assert rows_of(card_picture(answered))


def test_a_name_that_another_wrote_is_text(answer: dict[str, object]):
    hostile = json.loads(json.dumps(answer))
    hostile["record"]["plans"][0]["model"] = '"><script>x</script>\u2028\0' * 9
    files = dict(card_files(MODEL, BOX, hostile, POLICY))
    assert b"<script" not in files[f"card/{MODEL}/{BOX}.html"]
    assert rows_of(files[f"card/{MODEL}/{BOX}.png"])


def test_long_words_shrink_and_nothing_is_drawn_outside():
    assert fitting_scale("x" * 500, 1080, 10) == 1
    assert fitting_scale("", 1080, 10) == 10
    canvas = Canvas(20, 9)
    canvas.text(-4, -3, "Wy?\u00e9", 3, "ink")
    assert all(len(row) == 20 for row in rows_of(canvas.png()))
