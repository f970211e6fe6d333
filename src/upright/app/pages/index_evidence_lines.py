"""Evidence of indexes for a model on a box, a line each; nothing is imported unless an index is learned from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from upright.base.bounds.files import file_bytes

if TYPE_CHECKING:
    from upright.facts.records.box import Box

_MOST = 3


def index_evidence_lines(models: Iterable[str], box: Box) -> Iterator[str]:
    """Of the first few; evidence of others is named as such."""
    from upright.base.home import home

    try:
        if b'"learn": true' not in file_bytes(home() / "indexes.json"):
            return
    except OSError:
        return
    from upright.evidence.share.index_evidence import index_evidence
    from upright.facts import catalog

    rows = {row.id: None for model in models if (row := catalog.find_model(model)) is not None}
    for model in list(rows)[:_MOST]:
        if (evidence := index_evidence(model, box)) is not None:
            yield f"{model}: {evidence.sentence}"
