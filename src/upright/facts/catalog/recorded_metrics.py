"""Engine + version -> the metrics that version exports, as recorded.

`metrics/ENGINE-VERSION.txt` holds where they were seen, then `NAME TYPE` a line: from a running engine's own page, or
from its wheel's source by `scripts/extract-metrics`. Metrics of a feature are there too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from upright.facts.catalog import recordings
from upright.facts.catalog.loader import OURS

FOLDER = OURS / "metrics"
_PARTS_OF_A_HISTOGRAM = ("_bucket", "_sum", "_count")


@dataclass(frozen=True)
class RecordedMetrics:
    """What one recorded version exports."""

    engine: str
    version: str
    source: str
    types: Mapping[str, str]

    def __contains__(self, series: object) -> bool:
        """Whether it exports this series: a metric's own name, or a part of a histogram."""
        name = str(series)
        if name in self.types:
            return self.types[name] != "histogram"
        ends = (part for part in _PARTS_OF_A_HISTOGRAM if name.endswith(part))
        return any(self.types.get(name.removesuffix(end)) == "histogram" for end in ends)


def recorded_versions(engine: str) -> tuple[str, ...]:
    """Oldest first."""
    return recordings.recorded_versions(FOLDER, engine)


@cache
def nearest_metrics(engine: str, version: str | None) -> RecordedMetrics | None:
    """Of this version, or the newest recorded that is not newer, or else the oldest; None for an unknown engine."""
    nearest = recordings.nearest_version(FOLDER, engine, version)
    return _read(engine, nearest) if nearest is not None else None


def _read(engine: str, version: str) -> RecordedMetrics:
    first, *rest = (FOLDER / f"{engine}-{version}.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split() for line in rest if line)
    return RecordedMetrics(engine, version, first.removeprefix("# "), dict(pairs))
