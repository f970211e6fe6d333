"""Link previews: the page and picture that others show beside a link to an answer.

What comes behind `#` in an address never reaches whoever draws such a card: so each first answer has an address of
its own.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from html import escape
from typing import Any, Literal
from urllib.parse import urlencode

from upright.base.units import GIB

CARDS = "card"
"""The folder of the cards; a visit loads none of them by itself."""
_WIDTH, _TALL, _EDGE = 1200, 630, 60
_PARTS: dict[str, Colour] = {"weights": "weights", "experts": "experts", "engine": "engine", "KV": "kv"}
_MARK: dict[Colour, int] = {"weights": 18, "engine": 28, "kv": 38}
_HTML = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta http-equiv="refresh" content="0; url={answer}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta property="og:type" content="website">
<meta property="og:title" content="{title}">
<meta property="og:description" content="{about}">
<meta property="og:image" content="{picture}">
<meta property="og:image:width" content="1200">
<meta property="og:image:height" content="630">
<meta name="twitter:card" content="summary_large_image">
<title>{title}</title>
<link rel="stylesheet" href="../../style.css">
</head>
<body>
<main class="claim">
<p><a href="{answer}">{title}</a></p>
<p>{about}</p>
</main>
</body>
</html>
"""


def card_files(
    model: str, box: str, answer: dict[str, Any], policy: str, address: str = ""
) -> Iterator[tuple[str, bytes]]:
    """`address`: where the site will be; without it the picture is named beside the page, which some do not follow."""
    name = f"{CARDS}/{model}/{box}"
    yield f"{name}.png", card_picture(answer)
    link = urlencode({"view": "plan", "model": model, "box": box})
    picture = f"{address.rstrip('/')}/{name}.png" if address else f"{box}.png"
    title, about = card_words(answer)
    held = {"policy": policy, "answer": f"../../#{link}", "picture": picture, "title": title, "about": about}
    yield f"{name}.html", _HTML.format(**{key: escape(text) for key, text in held.items()}).encode()


def card_words(answer: dict[str, Any]) -> tuple[str, str]:
    """What is asked with its verdict, and the figures with their bands."""
    plan, verdict = answer["record"]["plans"][0], answer["view"]["verdict"]
    figures = "; ".join(f"{name} {figure} {unit}".strip() for name, figure, unit in _figures(plan))
    return f"{plan['model']} on {plan['box']}: {verdict}", figures or "; ".join(
        objection["message"] for objection in plan["objections"]
    )


def card_picture(answer: dict[str, Any]) -> bytes:
    plan, view = answer["record"]["plans"][0], answer["view"]
    canvas, wide = Canvas(_WIDTH, _TALL), _WIDTH - 2 * _EDGE
    for index, (colour, height) in enumerate(_MARK.items()):
        canvas.rectangle(_EDGE + 14 * index, 90 - height, 10, height, colour)
    canvas.text(_EDGE + 60, 62, "Upright", 4, "ink")
    canvas.text(_EDGE, 130, plan["model"], fitting_scale(plan["model"], wide, 10), "ink")
    canvas.text(_EDGE, 222, plan["box"], fitting_scale(plan["box"], wide, 5), "weak")
    verdict: Colour = "good" if plan["fits"] else "open" if view["verdict"].startswith("not known") else "bad"
    canvas.text(_EDGE, 280, view["verdict"], fitting_scale(view["verdict"], wide, 6), verdict)
    for index, (name, figure, unit) in enumerate(_figures(plan)):
        left = _EDGE + index * 370
        canvas.rectangle(left, 345, 340, 135, "card")
        canvas.text(left + 20, 362, name, 3, "weak")
        canvas.text(left + 20, 395, figure, fitting_scale(figure, 300, 6), "ink")
        canvas.text(left + 20, 450, unit, fitting_scale(unit, 300, 3), "weak")
    _memory_bar(canvas, view["bars"], 510)
    canvas.text(_EDGE, 588, answer["command"], fitting_scale(answer["command"], wide, 3), "weak")
    return canvas.png()


def _figures(plan: dict[str, Any]) -> list[tuple[str, str, str]]:
    if not plan["fits"]:
        return []
    users = plan["users_at_context"]
    context = ("context", f"{plan['context_tokens']:,}", f"x {users} user{'s' if users != 1 else ''}")
    speed = plan["speed"] or {}
    return [context, _rate("decode", speed.get("decode")), _rate("prefill", speed.get("prompt"))]


def _rate(name: str, rate: dict[str, Any] | None) -> tuple[str, str, str]:
    if rate is None:
        return name, "not known", ""
    band = f"{rate['low']:,.0f}-{rate['high']:,.0f}"
    return (name, band, "tok/s") if rate["best"] is None else (name, f"{rate['best']:,.0f}", f"{band} tok/s")


def _memory_bar(canvas: Canvas, bars: list[dict[str, Any]], top: int) -> None:
    """Of the first kind of device, to the scale of what it may use."""
    if not bars:
        return
    bar, wide = bars[0], _WIDTH - 2 * _EDGE
    whole = max(bar["capacity_bytes"], bar["used_bytes"], 1)
    canvas.rectangle(_EDGE, top, wide, 26, "card")
    left = _EDGE
    for part in bar["parts"]:
        width = round(wide * part["bytes"] / whole)
        canvas.rectangle(left, top, width, 26, _PARTS.get(part["name"], "weak"))
        left += width
    label = f"{bar['names']}: {bar['used_bytes'] / GIB:.1f} of {bar['capacity_bytes'] / GIB:.1f} GiB"
    canvas.text(_EDGE, top + 36, label, 3, "weak")


Colour = Literal["ground", "card", "ink", "weak", "line", "weights", "experts", "engine", "kv", "good", "bad", "open"]
_COLOURS: dict[Colour, tuple[int, int, int]] = {
    "ground": (20, 23, 27),
    "card": (28, 32, 38),
    "ink": (230, 232, 234),
    "weak": (163, 171, 181),
    "line": (51, 58, 67),
    "weights": (93, 142, 234),
    "experts": (55, 90, 153),
    "engine": (217, 164, 65),
    "kv": (72, 179, 124),
    "good": (127, 220, 168),
    "bad": (255, 157, 150),
    "open": (242, 198, 109),
}
_INDEX = {name: index for index, name in enumerate(_COLOURS)}
ADVANCE = 6
"""From one letter to the next, in dots."""
_GLYPHS = (
    "A0e11111f111111 B1e11111e11111e C0e11101010110e D1e11111111111e E1f10101e10101f F1f10101e101010 G0e11101711110f "
    "H1111111f111111 I0e04040404040e J0702020202120c K11121418141211 L1010101010101f M111b1515111111 N11191513111111 "
    "O0e11111111110e P1e11111e101010 Q0e11111115120d R1e11111e141211 S0f10100e01011e T1f040404040404 U1111111111110e "
    "V11111111110a04 W11111115151b11 X11110a040a1111 Y11110a04040404 Z1f01020408101f a00000e010f110f b10101e1111111e "
    "c00000e1110110e d01010f1111110f e00000e111f100e f06081c08080808 g00000f1111110f010e h10101e11111111 "
    "i04000c0404040e j02000602020202120c k10101214181412 l0c04040404040e m00001a15151515 n00001e11111111 "
    "o00000e1111110e p00001e1111111e1010 q00000f1111110f0101 r00001619101010 s00000f100e011e t08081c08080906 "
    "u0000111111130d v00001111110a04 w0000111115150a x0000110a040a11 y0000111111110f010e z00001f0204081f "
    "00e11131519110e 1040c040404040e 20e11010608101f 30e11010601110e 402060a121f0202 51f101e0101110e 60608101e11110e "
    "71f010204080808 80e11110e11110e 90e11110f01020c .00000000000c0c ,000000000c0408 :000c0c000c0c00 -0000000e000000 "
    "/01020204080810 (02040808080402 )08040202020408 %18190204081303 +0004041f040400 _0000000000001f '04040800000000 "
    "?0e110106040004 =00001f001f0000 ~00000815020000 "
)


def _font() -> dict[str, tuple[int, ...]]:
    """A letter, then two digits for each of its rows; some go below the line."""
    return {glyph[0]: tuple(bytes.fromhex(glyph[1:])) for glyph in _GLYPHS.split()}


_FONT = _font()


class Canvas:
    """A picture of so many pixels."""

    def __init__(self, width: int, height: int, ground: Colour = "ground") -> None:
        self._width, self._height = width, height
        self._rows = [bytearray([_INDEX[ground]]) * width for _ in range(height)]

    def rectangle(self, left: int, top: int, width: int, height: int, colour: Colour) -> None:
        """Cut at the edges."""
        right = max(0, min(self._width, left + width))
        left = min(max(0, left), right)
        strip = bytes([_INDEX[colour]]) * (right - left)
        for row in self._rows[max(0, top) : max(0, top + height)]:
            row[left:right] = strip

    def text(self, left: int, top: int, line: str, scale: int, colour: Colour) -> int:
        """Where it ends. What the font has not is a question mark."""
        for letter in line:
            for row, bits in enumerate(() if letter == " " else _FONT.get(letter, _FONT["?"])):
                for column in range(5):
                    if bits >> (4 - column) & 1:
                        self.rectangle(left + column * scale, top + row * scale, scale, scale, colour)
            left += ADVANCE * scale
        return left

    def png(self) -> bytes:
        header = struct.pack(">IIBBBBB", self._width, self._height, 8, 3, 0, 0, 0)
        palette = bytes(channel for colour in _COLOURS.values() for channel in colour)
        pixels = zlib.compress(b"".join(b"\0" + row for row in self._rows), 9)
        parts = ((b"IHDR", header), (b"PLTE", palette), (b"IDAT", pixels), (b"IEND", b""))
        return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, content) for kind, content in parts)


def fitting_scale(line: str, width: int, most: int) -> int:
    """The largest scale at which the line is no wider."""
    return max(1, min(most, width // max(1, ADVANCE * len(line))))


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
