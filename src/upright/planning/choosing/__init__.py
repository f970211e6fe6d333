"""Box + Model + Goal -> [Plan]: every byte on every device, exact where arithmetic is exact, banded elsewhere."""

from upright.planning.choosing.table import plan

__all__ = ["plan"]
