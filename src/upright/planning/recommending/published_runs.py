"""Box + ModelRow -> one published run on such a box, of this model if there is one."""

from __future__ import annotations

import re
from collections.abc import Iterator

from upright.base.units import tokens
from upright.facts import catalog
from upright.facts.catalog.results import gpu_named
from upright.facts.catalog.rows.model import ModelRow
from upright.facts.catalog.rows.words import MeasurementRow
from upright.facts.records.box import Box
from upright.facts.records.recommendation import PublishedRun

_EDITION = re.compile(r"-(server|workstation|max-q|sxm|pcie|nvl)$")


def published_run(box: Box, row: ModelRow) -> PublishedRun | None:
    """Same GPUs, as many of them. The load nearest to one user comes first, and runs without a draft."""
    known = list(_on_such(box))
    own = [run for run in known if _is_of(run, row)]
    best = min(own or known, key=_plainness, default=None)
    if best is None:
        return None
    return PublishedRun(id=best.id, words=_words(best), same_model=bool(own), source=best.sources[0])


def _on_such(box: Box) -> Iterator[MeasurementRow]:
    if not box.gpus or box.gpus[0].row is None:
        return
    family = _EDITION.sub("", box.gpus[0].row)
    for run in catalog.measurements():
        if run.decode_tokens_per_second and run.gpu_count == len(box.gpus) and _family(run.gpu) == family:
            yield run


def _family(name: str) -> str | None:
    """`RTX PRO 6000 Blackwell`, `rtx-pro-6000-server` -> rtx-pro-6000."""
    row = gpu_named(name)
    return _EDITION.sub("", row.id) if row else None


def _is_of(run: MeasurementRow, row: ModelRow) -> bool:
    names = {row.id, row.repository.lower(), row.repository.rpartition("/")[2].lower(), *map(str.lower, row.aliases)}
    return run.model.lower() in names


def _plainness(run: MeasurementRow) -> tuple[object, ...]:
    drafted = run.speculation not in (None, "none")
    return (run.concurrency != 1, drafted, abs((run.context_tokens or 0) - 32_768), run.id)


def _words(run: MeasurementRow) -> str:
    model = run.model.rpartition("/")[2]
    load = f"{tokens(run.context_tokens)} context" if run.context_tokens is not None else "a context that is not said"
    users = f", {run.concurrency} at once" if run.concurrency and run.concurrency > 1 else ""
    draft = f", {run.speculation}" if run.speculation not in (None, "none") else ""
    return (
        f"{model} on {run.gpu_count}x {run.gpu}, {run.engine}{draft}: {run.decode_tokens_per_second:g} tok/s decode at "
        f"{load}{users} ({run.date})"
    )
