"""How an engine's makers number and publish it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

RELEASE = r"\d+\.\d+.*"
BUILD = r"b\d+"
COMMIT = r"[0-9a-f]{7,40}"


class Releases(NamedTuple):
    """What a version looks like, and which image carries it."""

    spelling: str
    """A pattern of whole versions."""
    ordered: bool = True
    """Whether one version is older than another; commits have no order."""
    image: Callable[[str], str] | None = None
    """Upstream's image of a version; None if nobody publishes one that we could name and vouch for."""
