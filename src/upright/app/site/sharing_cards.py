"""A first answer -> the page and the picture that others show beside its link; the page leads on to the answer.

What comes behind `#` in an address never reaches whoever draws such a card: so each first answer has an address of
its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any
from urllib.parse import urlencode

from upright.app.site.card_picture import Canvas, Colour, fitting_scale
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
