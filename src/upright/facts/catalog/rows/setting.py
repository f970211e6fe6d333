"""Settings of a host that break or slow GPU boxes."""

from __future__ import annotations

from typing import Literal

from upright.facts.catalog.rows.base import Row, Words


class SettingRow(Row):
    """One setting: what should hold, what goes wrong otherwise, and how to change it."""

    title: Words
    """What holds on a machine that is set up well."""
    trouble: Words
    """What happens otherwise."""
    change: Words
    """How to change it, on one line."""
    details: Words
    """What else to know when changing it: permanence, exceptions."""
    matters: Literal["any", "gpu", "gpus", "numa"]
    """Where it counts: any machine, one GPU or more, two GPUs or more, two NUMA nodes or more."""
