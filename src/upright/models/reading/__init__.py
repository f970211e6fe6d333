"""A path, a repository or a catalogue name -> Model, from headers alone."""

from __future__ import annotations

from upright.models.reading.hub import Hub, Traffic
from upright.models.reading.source import read

__all__ = ["Hub", "Traffic", "read"]
