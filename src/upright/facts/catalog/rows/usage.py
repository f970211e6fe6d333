"""What people do with a model: turns, tokens, pauses."""

from upright.facts.catalog.rows.base import Fact, Row


class HabitFact(Fact):
    """A quantity that varies; `value` is its mean."""

    median: float | None = None
    """Half are below; with the mean it tells the spread (log-normal). None: it does not vary."""
    most: float | None = None
    """Cut here; None if it is not."""
    assumed: bool = False
    """Not measured: our assumption, which you should replace by what you know of your people."""


class UsageRow(Row):
    """One use of a model: what a user's conversations are like."""

    name: str
    """A line for people."""
    context_tokens: HabitFact
    """The context that is served if none is given: what its conversations grow to."""
    shared_tokens: HabitFact
    """Tokens at the start of every prompt that are the same for everyone: system prompt and tool schemas."""
    opening_tokens: HabitFact
    """Tokens that the first turn adds: the task, the files."""
    turn_tokens: HabitFact
    """Tokens that each later turn adds: a tool's result, a question."""
    answer_tokens: HabitFact
    """Tokens that the model writes in a turn."""
    turns: HabitFact
    """Turns of a conversation."""
    turns_a_request: HabitFact
    """Turns that an agent takes for one request of a person."""
    tool_seconds: HabitFact
    """From an answer to the next turn, where a tool runs in between."""
    thinking_seconds: HabitFact
    """From an answer to the next turn, where a person reads and thinks."""
    hours_between_failures: HabitFact
    """Mean time until a box fails."""
    repair_seconds: HabitFact
    """Until a failed box serves again."""
