"""Settings of a host that break or slow GPU boxes."""

from typing import Literal

from upright.facts.catalog.rows.base import NonEmptyText, Row


class SettingRow(Row):
    """One setting: what should hold, what goes wrong otherwise, and how to change it."""

    title: NonEmptyText
    """What holds on a machine that is set up well."""
    trouble: NonEmptyText
    """What happens otherwise."""
    change: NonEmptyText
    """How to change it, on one line."""
    details: NonEmptyText
    """What else to know when changing it: permanence, exceptions."""
    matters: Literal["any", "gpu", "gpus", "numa"]
    """Where it counts: any machine, one GPU or more, two GPUs or more, two NUMA nodes or more."""
