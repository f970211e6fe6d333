"""What was measured: cells of load against one endpoint, with what really happened in each."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from upright.facts.records.base import Entry, Part, QuotedText, Reason, Record, Upgrade
from upright.facts.records.names import SafeName

Api = Literal["chat", "completions", "messages"]
Arrival = Literal["closed", "open"]
OUT_OF_TIME = "the budget was spent before its turn came"
"""Why a cell is left for a run that goes on."""
WITH_TOOL = " with "
"""Stands between a workload and the tool that made its load, in `Benchmark.workload`."""
AS_IT_IS = " as it is"
"""Ends the name of the first in `Benchmark.subjects`, where the second is another recipe of the same deployment."""


class Spread(Part):
    """A distribution in a few numbers."""

    count: int
    """How many values."""
    mean: float
    """Their mean."""
    low: float
    """The least."""
    p50: float
    """The median."""
    p90: float
    """90 % are at or below."""
    p99: float
    """All but one in a hundred are below."""
    high: float
    """The greatest."""


class Shape(Part):
    """What one cell asks of the engine."""

    prompt_tokens: int
    """Tokens of a prompt, by the server's own count; of the first one in a conversation."""
    output_tokens: int
    """Tokens of an answer; the engine is told to ignore its end token."""
    concurrency: int
    """Requests in flight at once; with open arrival the size of the connection pool that is opened first."""
    requests: int
    """How many requests, or conversations, are sent."""
    arrival: Arrival = "closed"
    """closed: the next is sent when one is done; open: at random times (Poisson), whatever is still running."""
    requests_per_second: float | None = None
    """The rate of open arrival; None when closed."""
    ramp_seconds: float = 0.0
    """Over how long the first requests are spread."""
    turns: int = 1
    """Requests of one conversation, each with all that was said before."""
    turn_tokens: int = 0
    """Tokens that each turn after the first adds."""
    shared_tokens: int = 0
    """Tokens at the start of every prompt that are the same in all of them."""


class Machine(Part):
    """The load generator and what it cost."""

    program: SafeName
    """Who made the load: upright, or the tool that was driven."""
    version: SafeName | None
    """Its version."""
    loop: str | None = None
    """The event loop: asyncio; uvloop in older evidence."""
    cpu_seconds: float | None = None
    """Processor time of the generator during the cell."""
    lag_seconds: float | None = None
    """The longest time that the generator's own loop was late; its clocks cannot be better than this."""
    memory_bytes: int | None = None
    """The most memory that the generator has held since it started."""


class EngineView(Part):
    """What the engine's own metrics said during the cell; None where it has no such metric."""

    running: Spread | None = None
    """Requests that it worked on, sampled."""
    waiting: Spread | None = None
    """Requests that waited inside it, sampled."""
    kv_used_percent: Spread | None = None
    """How full its cache was, sampled."""
    kv_pool_tokens: int | None = None
    """Tokens that its cache can hold."""
    prompt_tokens: int | None = None
    """Prompt tokens that it counted during the cell."""
    output_tokens: int | None = None
    """Output tokens that it counted during the cell."""
    cached_tokens: int | None = None
    """Prompt tokens that it found in its prefix cache."""
    preemptions: int | None = None
    """Requests that it threw out for lack of cache."""
    drafted_tokens: int | None = None
    """Tokens that speculation proposed."""
    accepted_tokens: int | None = None
    """Of those, the ones that were kept."""

    @property
    def acceptance(self) -> float | None:
        if not self.drafted_tokens or self.accepted_tokens is None:
            return None
        return self.accepted_tokens / self.drafted_tokens


class Samples(Part):
    """The clock of every success, in the order in which they ended: what all figures of a cell are made from."""

    sent_us: tuple[int, ...]
    """When each was sent, in microseconds since the first one was."""
    first_us: tuple[int, ...]
    """When its first token came."""
    last_us: tuple[int, ...]
    """When its last token came."""
    ended_us: tuple[int, ...]
    """When its answer was whole."""
    pieces: tuple[int, ...]
    """Pieces that its text came in."""
    prompt_tokens: tuple[int, ...]
    """Prompt tokens as the server counted them."""
    output_tokens: tuple[int, ...]
    """Output tokens as the server counted them."""


def _from_1(content: dict[str, Any]) -> dict[str, Any]:
    """Schema 1 kept no samples: they stay unknown."""
    return content


class Cell(Entry):
    """One measurement: a shape, and what really happened."""

    kind: ClassVar[str] = "cell"
    schema_version: ClassVar[int] = 2
    upgrades: ClassVar[Mapping[int, Upgrade]] = {1: _from_1}

    run: str
    """Which benchmark it belongs to."""
    workload: str
    """The workload's name."""
    subject: str = "a"
    """Which of the compared: a, or b of an A/B."""
    recipe: str | None = None
    """Digest of the recipe that the engine ran by; None if it is not known."""
    repeat: int = 1
    """Which repetition of the same shape."""
    shape: Shape
    """What was asked."""
    api: Api
    """Which API."""
    at: str
    """When it began (UTC, ISO 8601)."""
    seconds: float
    """From the first byte sent to the last one received."""
    sent: int
    """Requests that were sent."""
    succeeded: int
    """Those with a finish_reason, a token count and a whole body."""
    errors: dict[str, int] = Field(default_factory=dict)
    """Requests that failed, by kind; none of them is in any mean."""
    error_samples: dict[str, QuotedText] = Field(default_factory=dict)
    """For each kind the first one's words."""
    unfinished: int = 0
    """Requests that the time box cut; neither success nor failure."""
    finish_reasons: dict[str, int] = Field(default_factory=dict)
    """How the successes ended."""
    in_flight_peak: int = 0
    """The most requests that were in flight at once."""
    in_flight_mean: float = 0.0
    """Requests in flight, averaged over the cell's time."""
    prompt_tokens: Spread | None = None
    """Prompt tokens as the server counted them."""
    output_tokens: Spread | None = None
    """Output tokens as the server counted them."""
    template_tokens: int | None = None
    """Tokens that the chat template adds to every prompt, so that even fresh ones share them."""
    cached_tokens: int | None = None
    """Prompt tokens that the server said came from its cache; None if it does not say."""
    ttft_seconds: Spread | None = None
    """Time to the first token."""
    itl_seconds: Spread | None = None
    """Between one piece of text and the next; a piece may hold several tokens."""
    tpot_seconds: Spread | None = None
    """(Time of the last token - time of the first) / (tokens - 1), by request."""
    latency_seconds: Spread | None = None
    """A whole request."""
    output_tokens_per_second: float = 0.0
    """Tokens of successes / seconds."""
    total_tokens_per_second: float = 0.0
    """The same with prompt tokens."""
    peak_tokens_per_second: float | None = None
    """Output tokens in the best second; None if nobody counted by the second."""
    requests_per_second: float = 0.0
    """Successes / seconds."""
    good_percent: float | None = None
    """Requests that kept the promise that was asked for; None if none was."""
    late_seconds: Spread | None = None
    """With open arrival: how late requests were sent."""
    engine: EngineView | None = None
    """The engine's own metrics; None if it has none."""
    machine: Machine
    """The generator."""
    complaints: dict[str, int] = Field(default_factory=dict)
    """What the guards found in the sampled answers."""
    sampled: int = 0
    """How many answers the guards looked at."""
    marks: tuple[str, ...] = ()
    """Why this cell is not what it claims to be; a marked cell enters no mean."""
    notes: tuple[str, ...] = ()
    """What else to know of it."""
    complete: bool = True
    """False if the server went away: the cell is measured again when the run is resumed."""
    samples: Samples | None = None
    """Every success by its clock; None of another tool's figures, of older ones, and of very many requests."""

    @property
    def key(self) -> str:
        """The same for every repetition of the same thing."""
        shape = self.shape
        return f"{self.workload} {shape.model_dump_json()} {self.api}"

    @property
    def failed(self) -> int:
        return sum(self.errors.values())

    @property
    def user_tokens_per_second(self) -> float | None:
        """What one user sees: 1 / mean time per output token."""
        return 1 / self.tpot_seconds.mean if self.tpot_seconds and self.tpot_seconds.mean > 0 else None


class Skipped(Part):
    """A cell that was not measured, and why."""

    shape: Shape
    """What would have been asked."""
    reason: Reason
    """Why not."""


class SelfTest(Part):
    """The generator against a server with an exact schedule, on this machine, just before."""

    concurrency: int
    """Streams at once."""
    tokens: int
    """Tokens received."""
    ttft_error_seconds: float
    """Mean time to first token that was measured, minus what the server's own clock says."""
    ttft_p99_error_seconds: float
    """The same for the 99th percentile."""
    itl_error_percent: float
    """Mean inter-token latency that was measured against the server's own clock."""
    throughput_error_percent: float
    """Tokens per second that were measured against the server's own clock."""
    reached: int
    """Streams that the server had open at once."""
    cpu_seconds: float
    """Processor time of the generator."""
    loop: str
    """asyncio; uvloop in older evidence."""


class Started(Entry):
    """A benchmark began; what follows with the same run belongs to it."""

    kind: ClassVar[str] = "bench-start"

    run: SafeName
    """Its name: the digest of what was asked, and a number."""
    asked: str
    """Digest of what was asked: target, recipe, shapes, repeats."""
    workload: str
    """The workload's name."""
    at: str
    """When (UTC, ISO 8601)."""


class Finished(Entry):
    """A benchmark came to its end; one without this line is resumed by the same command."""

    kind: ClassVar[str] = "bench-end"

    run: SafeName
    """Its name."""
    at: str
    """When (UTC, ISO 8601)."""


class Benchmark(Record):
    """One run of a workload: every cell, marked ones too."""

    kind: ClassVar[str] = "benchmark"
    schema_version: ClassVar[int] = 2
    upgrades: ClassVar[Mapping[int, Upgrade]] = {1: _from_1}

    run: SafeName
    """Its name."""
    title: SafeName
    """What a chart of it is called."""
    workload: str
    """The workload's name."""
    about: str
    """What the workload is, in words."""
    deployment: SafeName | None
    """Which deployment answered; None for an endpoint of somebody else."""
    model: SafeName
    """The name it was asked by."""
    engine: SafeName | None
    """Which engine; None if it is not known."""
    engine_version: SafeName | None
    """Its version."""
    base_url: SafeName | None
    """Where it answered; None if the figures are a publication's."""
    at: str
    """When it began (UTC, ISO 8601)."""
    seed: int
    """The seed of prompts and arrivals."""
    repeats: int
    """How often each cell was to be measured."""
    self_test: SelfTest | None
    """The generator's own error on this machine; None if it was not tested."""
    cells: tuple[Cell, ...]
    """In the order they were measured."""
    skipped: tuple[Skipped, ...] = ()
    """Cells that were not measured."""
    finding: str | None = None
    """What a search found, in words."""
    subjects: dict[str, str] = Field(default_factory=dict)
    """What a and b are, in an A/B."""
    source: str | None = None
    """Where the figures were published, if they are not ours."""

    @property
    def unfinished(self) -> bool:
        """Whether the same command has something left to do: the server went away, or the time was over."""
        cut = bool(self.cells) and not self.cells[-1].complete
        return cut or any(skipped_cell.reason == OUT_OF_TIME for skipped_cell in self.skipped)

    @property
    def clean(self) -> bool:
        """Whether every cell has answers, and no request of it failed."""
        return bool(self.cells) and all(cell.succeeded and cell.complete and not cell.failed for cell in self.cells)
