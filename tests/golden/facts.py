"""The catalogue -> one table: every model on five boxes, as `upright plan` has it; scripts/refresh writes it."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from upright.facts import catalog
from upright.facts.records.plan import Rate
from upright.planning.requests.plan_arguments import NamedBox, artifacts_of, box_named
from upright.planning.requests.plan_request import PlanRequest, plan_request

FILE = Path(__file__).with_name("facts.csv")
BOXES = (
    "8x-rtx-pro-6000-server",
    "2x-rtx-pro-6000-max-q-epyc-9175f",
    "1x-rtx-5090",
    "dgx-spark",
    "hgx-b200",
)
KEY = ("box", "model")
CELLS = ("artifact", "engine", "fits", "context", "decode", "prefill")
Row = Mapping[str, str]


def facts(boxes: Iterable[str] = BOXES) -> Iterator[Row]:
    for box in boxes:
        for model in sorted(catalog.rows("models")):
            request = PlanRequest(artifacts_of(model), box_named(NamedBox(box)))
            best = plan_request(request, advise=lambda best: False).best
            row = {"box": box, "model": model, "artifact": best.model, "engine": best.engine}
            if not best.fits:
                yield {**row, "fits": "no", "context": "", "decode": "", "prefill": ""}
                continue
            speed = best.speed
            yield {
                **row,
                "fits": "yes",
                "context": str(best.largest_context_tokens),
                "decode": _rate(speed.decode if speed else None),
                "prefill": _rate(speed.prompt if speed else None),
            }


def recorded() -> list[Row]:
    with FILE.open(encoding="utf-8", newline="") as opened:
        return list(csv.DictReader(opened))


def write(rows: Iterable[Row], path: Path = FILE) -> None:
    with path.open("w", encoding="utf-8", newline="") as opened:
        table = csv.DictWriter(opened, (*KEY, *CELLS), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


def _rate(rate: Rate | None) -> str:
    """Tokens a second of one user; a band without a best guess as its ends."""
    if rate is None:
        return ""
    return f"{rate.best:g}" if rate.best is not None else f"{rate.low:g}-{rate.high:g}"
