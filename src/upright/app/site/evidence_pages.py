"""The shipped index -> what the site shows of it: a list of claims, and a page for each with its level and every check.

Levels are those that `verify` comes to when the site is built, not those that the index says. Pages have no scripts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from typing import Any

from upright.base.bounds.files import file_bytes
from upright.evidence.share.index_reading import SEEDS, SHIPPED, pinned
from upright.evidence.share.opening import open_bundle
from upright.evidence.share.pointers import Pointer
from upright.evidence.share.repeats import OpenedBundle
from upright.evidence.share.seen_pointers import seen_in
from upright.evidence.share.statement import Predicate

EVIDENCE = "evidence"
"""The folder of the claims' pages; a visit loads none of them by itself."""
_MARKS = {"holds": "ok", "broken": "NO", "unknown": "?"}
_MEANS = {
    "broken": "something does not follow, or cannot be",
    "claimed": "raw data or records are missing: nothing speaks against it, and not enough for it",
    "consistent": "every headline was derived again from raw samples, and nothing known forbids it",
    "reproduced": "others, on boxes of their own, came to the same",
    "stale": "the newest version of the engine refuses one of its flags",
}
_HTML = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="../icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="../style.css">
</head>
<body>
<main class="claim">
{body}
</main>
</body>
</html>
"""


def evidence_files(policy: str) -> Iterator[tuple[str, bytes]]:
    """`evidence.json`, and of each claim its page and the bundle itself, so that anybody can verify it."""
    index = next((index for index in pinned() if index.name == SHIPPED), None)
    pointers = (
        sorted(seen_in(index), key=lambda pointer: (pointer.model, pointer.gpu, pointer.identity)) if index else []
    )
    claims = []
    for pointer in pointers:
        file = SEEDS / pointer.url
        opened = open_bundle(file)
        claims.append(_claim(pointer, opened))
        yield f"{EVIDENCE}/{pointer.identity[:12]}.html", _page(pointer, opened, policy).encode()
        yield f"{EVIDENCE}/{pointer.identity[:12]}.bundle.json", file_bytes(file)
    yield "evidence.json", json.dumps(claims, ensure_ascii=False, separators=(",", ":")).encode()


def _claim(pointer: Pointer, opened: OpenedBundle) -> dict[str, Any]:
    """What a line of the page's table needs."""
    predicate = opened.statement.predicate
    best = max((line for line in predicate.headlines if line.metric in ("user", "output")),
               key=lambda line: (line.metric == "user", line.figure), default=None)  # fmt: skip
    return {
        "id": pointer.identity[:12], "model": pointer.model, "gpu": pointer.gpu, "gpus": pointer.gpus,
        "engine": " ".join(part for part in (pointer.engine, pointer.engine_version) if part), "at": pointer.at,
        "level": opened.verification.level, "source": predicate.source.title if predicate.source else None,
        "figure": best.figure if best else None, "shape": best.shape if best else None,
        "of": best.metric if best else None,
    }  # fmt: skip


def _page(pointer: Pointer, opened: OpenedBundle, policy: str) -> str:
    verification, predicate = opened.verification, opened.statement.predicate
    title = f"{pointer.model} on {pointer.gpus}x {pointer.gpu}, {verification.engine}"
    file = f"{pointer.identity[:12]}.bundle.json"
    checks = [(_MARKS[look.outcome], look.code, look.reason) for look in verification.checks]
    parts = [
        f"<h1>{escape(title)} <span class='verdict {verification.level}'>{escape(verification.level)}</span></h1>",
        f"<p class='weak'>{escape(_MEANS[verification.level])}</p>",
        *_source(predicate),
        _table("Headlines", ("Metric", "Figure", "Unit", "Load"), _headlines(predicate)),
        *(_table(table.title, table.columns, table.rows) for table in predicate.tables),
        _table("What was checked", ("Verdict", "Check", "Reason"), checks),
        f"<p>Identity <code>{escape(verification.identity)}</code>. <a href='{file}' download>The bundle</a>: ",
        f"<code>upright share verify {file}</code> comes to the same.</p>",
        "<p><a href='../index.html#view=evidence'>Back to the planner</a></p>",
    ]
    return _HTML.format(policy=policy, title=escape(title), body="\n".join(parts))


def _source(predicate: Predicate) -> Iterator[str]:
    if (source := predicate.source) is not None:
        yield (
            f"<p>Published {escape(source.at)}: {escape(source.title)}. It was taken from a text whose sha256 is "
            f"<code>{escape(source.sha256)}</code>; no raw data is behind it.</p>"
        )


def _headlines(predicate: Predicate) -> list[tuple[str, ...]]:
    return [(line.metric, f"{line.figure:g}", line.unit, line.shape) for line in predicate.headlines]


def _table(title: str, columns: Any, rows: Any) -> str:
    head = "".join(f"<th scope='col'>{escape(str(name))}</th>" for name in columns)
    lines = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    return (
        f"<div class='card scroll' tabindex='0' role='region' aria-label='{escape(title, quote=True)}'><table>"
        f"<caption>{escape(title)}</caption><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>"
    )
