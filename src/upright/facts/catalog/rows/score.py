"""What a model reached in a benchmark, as somebody published it."""

from typing import Literal

from upright.facts.catalog.rows.base import NonEmptyText, Row


class ScoreRow(Row):
    """One published score of one release."""

    about: str = "A published score, which `recommend` ranks models by."
    """What it is."""
    model: NonEmptyText
    """The catalogue's model."""
    release: str | None = None
    """Which release, where the row of the model has several: a part of the artifact's name."""
    benchmark: NonEmptyText
    """SWE-bench Verified, Terminal-Bench 2.1."""
    score: float
    """Per cent of the tasks."""
    by: Literal["maker", "index"]
    """maker: by whoever made the model, in a harness of their own; index: by somebody else, one harness for all."""
    harness: str | None = None
    """What drove the model, where it is said."""
    date: NonEmptyText
    """When it was published."""
    note: str | None = None
    """What to keep in mind."""
