"""Measured bandwidth of system RAM, remembered by machine."""

from __future__ import annotations

import json
from contextlib import suppress

from upright.base.bounds.bounded_json import parse_json
from upright.base.bounds.files import file_bytes
from upright.base.errors import UprightError
from upright.base.home import home, make_private
from upright.base.progress import utc_now
from upright.facts.records.base import Figure
from upright.facts.store.files import write_atomically

_FILE = "bandwidths.json"
_LONGEST_BYTES = 64 << 10
_MOST_MACHINES = 100
# No machine reads faster, or is worth planning for slower.
_LEAST, _MOST = 1e8, 1e14


def keep_bandwidth(identity: str, figure: Figure) -> None:
    """The fastest reading of this hardware: others at work make one slower, nothing makes one faster.

    A disk that takes no note loses only that.
    """
    known = kept_bandwidth(identity)
    if figure.value is None or (known is not None and (known.value or 0) > figure.value):
        return
    kept = {name: noted for name, noted in _noted().items() if name != identity}
    while len(kept) >= _MOST_MACHINES:
        kept.pop(next(iter(kept)))
    kept[identity] = {"bytes_per_second": figure.value, "source": figure.source, "at": utc_now()}
    with suppress(OSError, UprightError):
        make_private(home())
        write_atomically(home() / _FILE, json.dumps(kept).encode())


def kept_bandwidth(identity: str) -> Figure | None:
    noted = _noted().get(identity)
    if not isinstance(noted, dict):
        return None
    value, day = noted.get("bytes_per_second"), str(noted.get("at"))[:10]
    if isinstance(value, bool) or not isinstance(value, int | float) or not _LEAST <= value <= _MOST:
        return None
    return Figure(value=value, basis="measured", source=f"{str(noted.get('source'))[:200]}, {day}")


def _noted() -> dict[str, object]:
    try:
        content = parse_json(file_bytes(home() / _FILE, _LONGEST_BYTES, own=True))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
