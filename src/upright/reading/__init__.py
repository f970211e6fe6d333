"""A path, a repository or a catalogue name -> Model, from headers alone."""

from __future__ import annotations

from upright.reading.hub import Hub, Traffic
from upright.reading.source import read

__all__ = ["Hub", "Traffic", "read"]
