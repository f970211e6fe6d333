"""Plans, published runs and the ladder -> the drawings of the tutorials, as plain SVG that nothing is fetched for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from itertools import pairwise
from math import ceil
from pathlib import Path

import upright
from upright.facts import catalog
from upright.facts.records.plan import Plan
from upright.planning.requests.plan_arguments import NamedBox, box_named
from upright.proof.ladder.rungs import RUNGS

OWNED = ("docs/pictures/*.svg",)
FONT = 'font-family="system-ui, sans-serif" font-size="13"'
INK, SOFT, LINE = "#1f2733", "#5b6675", "#d5dae1"
FILLS = {"weights": "#3f72af", "engine": "#9aa5b1", "KV cache": "#e08e45", "experts": "#6d9f71", "free": "#eef1f5"}
MODEL, BOX = "kimi-k2.6", "8x-rtx-pro-6000-server"
IMAGE = "voip-glm-kimi-canonical-20260514"
MEASURED = ("m023", "m031", "m036", "m040", "m043")
"""One configuration at five contexts: vLLM's fork of that image, TP8, fp8 cache, one request."""
CONTEXTS = (4096, 16384, 32768, 49152, 65536, 98304, 131072)
HYBRID = ("kimi-k2.6", "1x-rtx-pro-6000-workstation", 768)
"""One GPU and so much system RAM, as `--ram 768GB` takes it."""
ROLLED = Path(__file__).resolve().parents[2] / "docs/examples/rolling-restart.json"
"""What scripts/take-pictures roll saw: four real llama-servers behind smg."""
PHASES = {"draining": "#e08e45", "restarting": "#9aa5b1", "proving": "#6d9f71", "admitting": "#b9d4bb"}


def pages() -> dict[str, str]:
    boxes = {"8x RTX PRO 6000": plan(MODEL, BOX), "8x H200": plan(MODEL, "hgx-h200")}
    model, box, ram = HYBRID
    return {
        "docs/pictures/memory.svg": memory(boxes, "Kimi K2.6 on two boxes: memory of each GPU"),
        "docs/pictures/hybrid.svg": memory(
            {"1x RTX PRO 6000": plan(model, box, ram=ram)},
            "Kimi K2.6 on one GPU and 768 GB of system RAM",
            all_devices=True,
        ),
        "docs/pictures/decode.svg": decode(),
        "docs/pictures/ladder.svg": ladder(),
        "docs/pictures/roll.svg": roll(),
    }


def plan(model: str, box: str, *, ram: int | None = None, **wishes: object) -> Plan:
    record = box_named(NamedBox(box, ram))
    return upright.plan(model, record, **wishes)[0]


def memory(plans: dict[str, Plan], title: str, *, all_devices: bool = False) -> str:
    """A bar for each kind of device: what takes how much of it, and what is left."""
    bars = []
    for name, made in plans.items():
        devices = list(dict.fromkeys(line.device for line in made.ledger))
        bars += [
            (f"{name}, {_place(device)}" if all_devices else f"{name}, each GPU", *_parts(made, device))
            for device in (devices if all_devices else devices[:1])
        ]
    longest = max(max(sum(parts.values()), capacity) for _, parts, capacity in bars)
    shapes, top = [], 44
    for name, parts, capacity in bars:
        shapes.append(_text(12, top + 12, name, weight="600"))
        shapes.append(
            _text(708, top + 12, f"{sum(parts.values()):,.0f} of {capacity:,.0f} GiB", anchor="end", fill=SOFT)
        )
        shapes.append(_box(12, top + 20, 696 * capacity / longest, 26, FILLS["free"]))
        at = 12.0
        for part, gib in parts.items():
            width = 696 * gib / longest
            shapes.append(_box(at, top + 20, width, 26, FILLS[part], f"{part}: {gib:,.1f} GiB"))
            if width > 60:
                shapes.append(_text(at + width / 2, top + 37, f"{gib:,.1f}", anchor="middle", fill="#ffffff"))
            at += width
        top += 70
    used = [part for part in FILLS if part == "free" or any(part in parts for _, parts, _ in bars)]
    return _svg(720, top + 24, title, [_text(12, 24, title, weight="700"), *shapes, *_legend(used, top + 8)])


def _parts(made: Plan, device: str) -> tuple[dict[str, float], float]:
    sums: dict[str, float] = {}
    for line in made.ledger:
        if line.device == device:
            part = _KINDS.get(line.term) or ("weights" if "weights" in line.term else "engine")
            sums[part] = sums.get(part, 0) + line.bytes / 2**30
    capacity = next(budget.capacity_bytes for budget in made.budgets if budget.device == device) / 2**30
    return {part: sums[part] for part in FILLS if part in sums}, capacity


_KINDS = {"kv_cache": "KV cache", "experts": "experts"}


def decode() -> str:
    """What the plan says over context, its band, and what was measured."""
    points = []
    for context in CONTEXTS:
        speed = plan(MODEL, BOX, context_tokens=context, image=IMAGE, decode_context_parallel=1).speed
        assert speed is not None
        if not points:
            points.append((0, speed.empty))
        points.append((context, speed.full))
    rows = {row.id: row for row in catalog.rows("measurements").values()}
    dots = [(rows[name].context_tokens, rows[name].decode_tokens_per_second) for name in MEASURED]
    highest = 20 * ceil(max(rate.high for _, rate in points) / 20)

    def at(context: float, rate: float) -> str:
        return f"{60 + 630 * context / CONTEXTS[-1]:.1f},{300 - 240 * rate / highest:.1f}"

    band = [at(context, rate.high) for context, rate in points] + [
        at(context, rate.low) for context, rate in points[::-1]
    ]
    shapes = [_text(12, 24, "Kimi K2.6 on 8x RTX PRO 6000: decode over context, one user", weight="700")]
    for rate in range(0, highest + 1, 20):
        x, y = at(0, rate).split(",")
        shapes.append(f'<line x1="{x}" y1="{y}" x2="690" y2="{y}" stroke="{LINE}"/>')
        shapes.append(_text(52, float(y) + 4, str(rate), anchor="end", fill=SOFT))
    for context in (0, 32768, 65536, 98304, 131072):
        x = float(at(context, 0).split(",")[0])
        shapes.append(_text(x, 320, f"{context // 1024}k" if context else "empty", anchor="middle", fill=SOFT))
    shapes.append(f'<polygon points="{" ".join(band)}" fill="{FILLS["weights"]}" fill-opacity="0.18"/>')
    line = " ".join(at(context, rate.best) for context, rate in points)
    shapes.append(f'<polyline points="{line}" fill="none" stroke="{FILLS["weights"]}" stroke-width="2.5"/>')
    for context, rate in dots:
        x, y = at(context, rate).split(",")
        shapes.append(
            f'<circle cx="{x}" cy="{y}" r="5" fill="{FILLS["KV cache"]}"><title>{rate} tok/s measured</title></circle>'
        )
    shapes.append(_text(60, 50, "tok/s", anchor="end", fill=SOFT))
    shapes += [
        f'<line x1="400" y1="46" x2="424" y2="46" stroke="{FILLS["weights"]}" stroke-width="2.5"/>',
        _text(430, 50, "planned, with its band"),
        f'<circle cx="590" cy="46" r="5" fill="{FILLS["KV cache"]}"/>',
        _text(602, 50, "measured"),
    ]
    return _svg(720, 336, "Decode over context, planned with its band, and five published measurements", shapes)


def ladder() -> str:
    """The rungs, the first below."""
    rungs = [rung for rung in RUNGS if rung.name not in ("rehearse", "speculation")]
    height = 34 * len(rungs) + 56
    shapes = [_text(12, 24, "The ladder: each rung is asked only when the one below was passed", weight="700")]
    for step, rung in enumerate(rungs):
        top = height - 14 - 34 * (step + 1)
        shapes.append(_box(12, top, 118, 26, FILLS["weights"]))
        shapes.append(_text(71, top + 17, rung.name, anchor="middle", fill="#ffffff", weight="600"))
        shapes.append(_text(142, top + 17, rung.about))
    return _svg(720, height, "The rungs of the proof ladder", shapes)


def roll() -> str:
    """A lane for each box: streams that it answers, over the phases of its restart."""
    told = json.loads(ROLLED.read_text())
    running, end, most = told["running"], told["running"][-1][0], max(max(row[1:]) for row in told["running"])
    title = f"A rolling restart of four boxes under 64 streams: {told['answers']:,} answers, {told['failed']} failed"
    shapes = [_text(12, 24, title, weight="700")]

    def across(seconds: float) -> float:
        return 60 + 640 * seconds / end

    for lane, box in enumerate("abcd"):
        base = 110 + 66 * lane
        steps = [(seconds, phase) for seconds, name, phase in told["phases"] if name == box]
        for (start, phase), (stop, _) in pairwise(steps):
            words = f"{box}: {phase}, {stop - start:.1f} s"
            shapes.append(_box(across(start), base - 54, across(stop) - across(start), 54, PHASES[phase], words))
        line = " ".join(f"{across(row[0]):.1f},{base - 50 * row[1 + lane] / most:.1f}" for row in running)
        area = f"{across(running[0][0]):.1f},{base} {line} {across(end):.1f},{base}"
        shapes.append(f'<polygon points="{area}" fill="{FILLS["weights"]}" fill-opacity="0.75"/>')
        shapes.append(f'<line x1="60" y1="{base}" x2="700" y2="{base}" stroke="{LINE}"/>')
        shapes.append(_text(12, base - 20, f"box {box}", weight="600"))
    marks = range(0, int(end) + 1, 20)
    shapes += [_text(across(seconds), 326, f"{seconds} s", anchor="middle", fill=SOFT) for seconds in marks]
    shapes += [_box(12, 337, 12, 12, FILLS["weights"]), _text(30, 348, "streams that it answers", fill=SOFT)]
    at = 206
    for phase, fill in PHASES.items():
        shapes += [_box(at, 337, 12, 12, fill), _text(at + 18, 348, phase, fill=SOFT)]
        at += 40 + 8 * len(phase)
    return _svg(720, 360, title, shapes)


def _legend(parts: Sequence[str], top: float) -> list[str]:
    shapes, at = [], 12
    for part in parts:
        shapes += [_box(at, top - 9, 12, 12, FILLS[part]), _text(at + 18, top + 2, part, fill=SOFT)]
        at += 34 + 8 * len(part)
    return shapes


def _box(x: float, y: float, width: float, height: float, fill: str, title: str = "") -> str:
    told = f"<title>{escape(title)}</title>" if title else ""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}" rx="2" fill="{fill}">{told}</rect>'


def _text(x: float, y: float, text: str, *, anchor: str = "start", fill: str = INK, weight: str = "400") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} fill="{fill}" font-weight="{weight}">{escape(text)}</text>'


def _svg(width: int, height: float, title: str, shapes: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:.0f}" width="{width}" role="img" {FONT}>'
    )
    ground = f'<rect width="{width}" height="{height:.0f}" rx="6" fill="#ffffff"/>'
    return "\n".join([head, f"<title>{escape(title)}</title>", ground, *shapes, "</svg>", ""])


def _place(device: str) -> str:
    return "system RAM" if device == "host" else device
