"""How many boxes so many people need, what they would see, and what every number rests on."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from upright.facts.records.base import Basis, Figure, Part, Record, Upgrade
from upright.facts.records.plan import Use

Bottleneck = Literal["nothing", "first-token", "kv-pool", "streams", "rate"]


class Promised(Part):
    """What counts as served."""

    first_token_seconds: float
    """A first token comes within this."""
    tokens_per_second: float
    """A stream has at least this, after its first token."""
    share: float
    """Of turns that must keep the first, and of streams that must keep the second."""


class Curve(Part):
    """How one box serves: what the simulation was given."""

    basis: Basis
    """measured if it comes from a benchmark, derived if it was planned."""
    why: str
    """From which records, or from which constants."""
    streams: int
    """Sequences that the engine runs at once."""
    pool_tokens: int
    """Tokens that its cache holds."""
    step_seconds: tuple[tuple[float, float], ...]
    """(streams decoding, seconds of a step with empty caches)."""
    cached_token_seconds: float
    """What each token in the cache of a decoding stream adds to a step."""
    prompt_tokens_per_second: float
    """Reading a short prompt, once it has begun."""
    first_token_seconds: float
    """What a first token takes beside that: network, tokenising, a step's own time."""
    low_factor: float = 1.0
    """Times may be this many times as long: less than 1 if it may be faster."""
    high_factor: float = 1.0
    """Times may be this many times as long."""
    notes: tuple[str, ...] = ()
    """What the curve does not know."""


class Seen(Part):
    """What the users of so many boxes would see."""

    boxes: int
    """How many."""
    first_token_p50_seconds: float
    """Half of all first tokens come within this."""
    first_token_p95_seconds: float
    """95 of 100 first tokens come within this."""
    tokens_per_second_p50: float
    """Half of all streams have more."""
    tokens_per_second_p5: float
    """95 of 100 streams have more."""
    busy_percent: float
    """Of its time a box has something to do."""
    reused_percent: float
    """Of prompt tokens that a cache still held."""
    reread_percent: float
    """Of prompt tokens that had been read before and were dropped since."""
    waited_for_room_percent: float
    """Of turns that waited because the cache was full."""
    waited_for_stream_percent: float
    """Of turns that waited because the engine ran as many as it can."""
    output_tokens_per_second: float
    """Tokens that the whole fleet writes."""
    turns: int
    """How many turns were simulated."""
    failures: int = 0
    """Boxes that failed meanwhile."""
    cut: int = 0
    """Streams that a failing box cut; they were asked again."""


class Cost(Part):
    """What the boxes and their spares take."""

    name: str
    """watts, rent a month, energy a month, purchase, ..."""
    value: float
    """The number."""
    unit: str
    """W, or the unit of the price that was given."""
    why: str
    """The arithmetic, and what is left out."""
    basis: Basis
    """Where it comes from."""


def _from_1(content: dict[str, Any]) -> dict[str, Any]:
    """Schema 1 did not measure what a simulated part of a fleet may be off by."""
    return content


class Sizing(Record):
    """So many people, so many boxes."""

    kind: ClassVar[str] = "sizing"
    schema_version: ClassVar[int] = 2
    upgrades: ClassVar[Mapping[int, Upgrade]] = {1: _from_1}

    users: int
    """People who use it at once, thinking included."""
    use: Use
    """What they do."""
    promise: Promised
    """What was asked for."""
    model: str | None
    """What is served; None if the evidence does not say."""
    box: str | None
    """On which machine; None if the evidence does not say."""
    context_tokens: int
    """The context that is served."""
    usage: dict[str, Figure]
    """What a user does, each with its basis; the mean of what varies."""
    curve: Curve
    """How one box serves."""
    boxes: int
    """The fewest that keep the promise while all of them work."""
    low_boxes: int
    """The same if the box is as fast as its band allows."""
    high_boxes: int | None
    """The same if the box is as slow as its band allows; None if no number is enough then."""
    spares: int
    """More, so that the promise is kept while boxes are down."""
    spares_why: str
    """Why so many."""
    binds: Bottleneck
    """What one box fewer would break, and why."""
    binds_why: str
    """The same in words."""
    seen: Seen
    """With `boxes`."""
    fewer: Seen | None
    """With one box fewer, or as few fewer as trials of a large fleet can tell; None if one is enough."""
    failing: Seen
    """With `boxes` and `spares`, one of which fails early, for as long as `usage` says that a repair takes."""
    costs: tuple[Cost, ...] = ()
    """Watts, and money if prices were given."""
    simulated_boxes: int
    """Fewer than `boxes` where the fleet is large: a part of it, with its share of the users."""
    error_boxes: int | None = None
    """By how many boxes the answer differs where the simulation draws other turns; 0 if every box was simulated."""
