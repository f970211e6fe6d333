"""`upright` alone: this machine, its best three models, what runs here, what changed, and three commands."""

from __future__ import annotations

from typing import Any

from upright.app.cli.output import Output, page_width


def answer(output: Output) -> None:
    """Within a second after the first time, without a network."""
    from upright.app.pages.first_look_page import first_look_page
    from upright.flows.first_look import first_look

    seen = first_look()
    commands = list(_commands(seen))
    output.answer({**seen, "commands": [" ".join(("upright", *words)) for words, _ in commands]})
    output.show(first_look_page(seen, [(" ".join(words), why) for words, why in commands], page_width()))
    output.next(*commands[0][0])


def _commands(seen: dict[str, Any]) -> list[tuple[tuple[str, ...], str]]:
    """The first is the next one to type."""
    ready = next((one["name"] for one in seen["running"] if one["state"] == "ready"), None)
    fallen = next((one["name"] for one in seen["running"] if one["state"] == "failed"), None)
    best = seen["three"].get("best")
    found: list[tuple[tuple[str, ...], str]] = []
    if ready:
        found.append((("connect", ready), "settings for your agent or chat"))
    if fallen:
        found.append((("diagnose", fallen), "why it fell, and what to change"))
    if best:
        found.append((("run", best["source"]), "fetch it, start it, prove it"))
        found.append((("plan", best["source"]), "what it takes, and what else would fit"))
    found.append((("demo",), "all of it in half a minute, on a model of 4 MB"))
    if not best:
        found.append((("recommend", "--box", "2x-rtx-3090"), "what another machine could run"))
        found.append((("catalog", "list", "boxes"), "machines by name"))
    return found[:3]
