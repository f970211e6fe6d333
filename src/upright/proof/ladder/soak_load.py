"""Soak load: users who each keep asking about a long text of their own, then a restart under that load.

The questions are a fixed set, asked round after round: what an engine keeps of them it keeps after the first round, so
that whatever still grows is not its cache. Judging what was seen is the rung's.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from upright.base import units
from upright.base.errors import UprightError
from upright.proof.benchmark.load import Arrivals, LoadTarget, Request, RequestResult, StreamTally, run
from upright.proof.ladder.long_text import long_text
from upright.proof.ladder.prompts import Needles
from upright.proof.ladder.rules import QUICK_RULES, judge
from upright.proof.ladder.rung import ProofContext
from upright.serving.endpoint.client import Answer
from upright.serving.endpoint.guards import complaints
from upright.serving.launch.footprint import Footprint, FootprintMeter

_TEXT_SHARE = 0.5
"""Of the context: what a user's text takes, if reading them all leaves time for the rest."""
_READING_SHARE = 0.2
"""Of the time: what the first reading of all texts may take, each question's anew if the engine caches no prefix."""
_FIRST_ROUND_SHARE = 0.3
"""Of the time: the load counts as steady then, though the first round may not be over."""
_ABOUT_TEXT = 4
"""Questions of a round about the text."""
_LEAST_SENTENCES = 8
_SENTENCE_TOKENS = 14.0
"""Until it is measured (assumed)."""
_PATIENCE_SECONDS = 120.0
_LEAST_LOOK_SECONDS = 0.5
_LOOKS = 240
_BEFORE_RESTART_SECONDS = 1.0
_SLICE_SECONDS = 2.0
_TOLD = 10
"""How often a soak says how far it is."""
_KEPT = 5
"""Failures and broken answers that evidence holds in words."""

clock = time.perf_counter


class SoakedRequest(NamedTuple):
    """What became of one request."""

    at: float
    """When it ended, in seconds since the load began."""
    question: str
    seconds: float
    first_seconds: float | None
    error: str | None
    """The kind of failure."""
    guard: str | None
    """The guard that found the answer broken."""
    wrong: bool
    """Whole and well formed, and not what was asked for."""


@dataclass(frozen=True)
class Restarted:
    """One restart under load."""

    seconds: float
    """Until it answered again."""
    reason: str | None
    """Why it did not come back."""
    during: tuple[SoakedRequest, ...]
    after: tuple[SoakedRequest, ...]


@dataclass
class SoakResult:
    """All that was seen."""

    users: int
    text_tokens: int
    """About, for each user."""
    questions: int
    """Of one user, in a round."""
    warm: list[SoakedRequest] = field(default_factory=list)
    """The first round of each user: every text is read for the first time."""
    steady: list[SoakedRequest] = field(default_factory=list)
    steady_seconds: float = 0.0
    gone: bool = False
    """The server could no longer be reached."""
    unfinished: int = 0
    """Requests that were still being answered when patience ended, long after the load."""
    looks: list[tuple[float, Footprint]] = field(default_factory=list)
    """The machine, while the load was steady."""
    restarted: Restarted | None = None
    samples: list[str] = field(default_factory=list)
    """Failures and broken answers, in words."""

    @property
    def asked(self) -> list[SoakedRequest]:
        return [*self.warm, *self.steady]


def soak(stand: ProofContext) -> SoakResult:
    """So long with load, the first round included; then the restart, if the deployment is ours and it is wanted."""
    seconds = stand.options.soak.seconds
    users = _Users(stand, seconds)
    soaked = users.soaked
    who = "1 user asks" if soaked.users == 1 else f"{soaked.users} users ask"
    stand.tell(
        f"soaking: {who} for {units.format_duration(seconds)}, "
        f"{units.format_tokens(soaked.text_tokens)} tokens of text each"
    )
    began = users.began = clock()
    with _watched(stand, seconds, began) as looks:
        users.ask(soaked.warm, users.load(_FIRST_ROUND_SHARE * seconds), rounds=1)
        warm_seconds = clock() - began
        left = seconds - warm_seconds
        if left > 0 and not soaked.gone:
            users.ask(soaked.steady, users.load(left), on_tick=_telling(stand, soaked, looks, began, seconds))
        soaked.steady_seconds = clock() - began - warm_seconds
    soaked.looks = [(at, look) for at, look in looks if at >= warm_seconds]
    if stand.target.keeper is not None and stand.options.soak.restart and not soaked.gone:
        stand.tell("  restarting it under load")
        users.restarting = True
        soaked.restarted = _restarted(stand.target.keeper.restart, users)
    return soaked


class _Asked(NamedTuple):
    name: str
    content: str
    max_tokens: int
    right: Callable[[str], bool]


class _Users:
    """A source of requests: each user asks one thing after another, round after round."""

    def __init__(self, stand: ProofContext, seconds: float) -> None:
        users = max(stand.target.users, 1)
        tokens = _text_tokens(stand, users, seconds)
        self._sheets = [[*_about_text(stand, user, tokens), *_in_short(stand)] for user in range(users)]
        self._next = [0] * users
        self._left: list[int | None] = [None] * users
        self._free: deque[int] = deque()
        self._into: list[SoakedRequest] = []
        extra = tuple(stand.prompts.modes.get("instant", {}).items())
        self._target = LoadTarget(stand.endpoint.base_url, stand.endpoint.model, key=stand.endpoint.key, extra=extra)
        self._scripts = stand.prompts.scripts
        self._patience_seconds = _PATIENCE_SECONDS + 4 * users * tokens / (stand.rates.prefill or 100)
        self.began = 0.0
        self.restarting = False
        self.soaked = SoakResult(users, tokens, len(self._sheets[0]))

    def load(self, seconds: float | None = None) -> Arrivals:
        """What runs at its end may end too: cut before patience ends, it could not be told from what hangs."""
        patience = self._patience_seconds
        return Arrivals(self.soaked.users, seconds=seconds, grace_seconds=2 * patience, patience_seconds=patience)

    def ask(
        self, into: list[SoakedRequest], load: Arrivals, *,
        rounds: int | None = None, on_tick: Callable[[StreamTally, int], None] | None = None,
    ) -> None:  # fmt: skip
        """Every user, so many rounds or as long as the load says."""
        self._into = into
        self._free = deque(range(len(self._sheets)))
        self._left = [None if rounds is None else rounds * len(sheet) for sheet in self._sheets]
        tally, flight = run(self._target, self, load, on_tick=on_tick, on_landing=self._landed)
        self.soaked.gone = flight.gone
        self.soaked.unfinished += tally.unfinished

    def first(self) -> Request | None:
        return self._request(self._free.popleft()) if self._free else None

    def following(self, request: Request, answer: str) -> Request | None:
        user, _ = _session(request)
        return self._request(user)

    def _request(self, user: int) -> Request | None:
        left = self._left[user]
        if left == 0:
            return None
        self._left[user] = None if left is None else left - 1
        asked = self._sheets[user][self._next[user] % len(self._sheets[user])]
        self._next[user] += 1
        payload = self._target.request([{"role": "user", "content": asked.content}], asked.max_tokens)
        return Request(payload, None, output_tokens=asked.max_tokens, session=(user, asked))

    def _landed(self, landing: RequestResult) -> None:
        user, asked = _session(landing.request)
        if landing.error is not None:
            self._free.append(user)  # nothing follows a failure by itself
        guard, detail = self._broken(landing) if landing.error is None else (None, landing.words)
        if (landing.error or guard) and not self.restarting and len(self.soaked.samples) < _KEPT:
            self.soaked.samples.append(f"{asked.name}: {landing.error or guard}: {detail[:200]}")
        self._into.append(
            SoakedRequest(
                at=landing.ended_at - self.began,
                question=f"{user} {asked.name}",
                seconds=landing.ended_at - landing.sent_at,
                first_seconds=None if landing.first_at is None else landing.first_at - landing.sent_at,
                error=landing.error,
                guard=guard,
                wrong=landing.error is None and guard is None and not asked.right(landing.text),
            )
        )

    def _broken(self, landing: RequestResult) -> tuple[str | None, str]:
        usage = landing.usage or {}
        answer = Answer.of_text(
            landing.text, landing.finish_reason or "", usage.get("prompt", 0), usage.get("output", 0)
        )
        complaint = next(complaints(answer, scripts=self._scripts), None)
        return (complaint.guard, complaint.what) if complaint else (None, "")


def _session(request: Request) -> tuple[int, _Asked]:
    session = request.session
    assert isinstance(session, tuple)
    return session


def _text_tokens(stand: ProofContext, users: int, seconds: float) -> int:
    """Half the context, or what can be read in a fifth of the time."""
    room = _TEXT_SHARE * (stand.target.context_tokens or 0)
    if stand.rates.prefill:
        cached = any(seen.measured.get("cached_tokens", 0) > 0 for seen in stand.observations)
        readings = users * (1 if cached else _ABOUT_TEXT)
        room = min(room, _READING_SHARE * seconds * stand.rates.prefill / readings)
    return int(room)


def _about_text(stand: ProofContext, user: int, tokens: int) -> list[_Asked]:
    needles = stand.prompts.needles
    count = int(tokens / (stand.tokens_per_sentence or _SENTENCE_TOKENS))
    if needles is None or count < _LEAST_SENTENCES:
        return []
    text = long_text(needles, count, stand.seed + 1 + user)
    content = f"{needles.lead}{text.beginning(count)}"
    asked = text.facts[:: max(1, len(text.facts) // _ABOUT_TEXT)][:_ABOUT_TEXT]
    return [_needle(needles, content, fact.key, fact.number) for fact in asked]


def _needle(needles: Needles, content: str, key: str, number: str) -> _Asked:
    def right(text: str) -> bool:
        return number in text.replace(",", "").replace(" ", "")

    return _Asked(f"needle {key}", f"{content}\n\n{needles.ask.format(key=key)}", needles.max_tokens, right)


def _in_short(stand: ProofContext) -> Iterator[_Asked]:
    for number, question in enumerate(stand.prompts.smoke, start=1):
        if question.rule in QUICK_RULES and not question.enforce_schema and "instant" in question.modes:
            rule, expect = question.rule, question.expect
            yield _Asked(
                f"{question.check} {number}",
                question.ask,
                question.max_tokens,
                lambda text, rule=rule, expect=expect: judge(rule, text, expect) is None,  # type: ignore[misc]
            )


@contextmanager
def _watched(stand: ProofContext, seconds: float, began: float) -> Iterator[list[tuple[float, Footprint]]]:
    """Looks at the engine's machine all along, in a thread of its own."""
    looks: list[tuple[float, Footprint]] = []
    keeper = stand.target.keeper
    if keeper is None:
        yield looks
        return
    stop = threading.Event()
    every = max(_LEAST_LOOK_SECONDS, seconds / _LOOKS)
    thread = threading.Thread(target=_look, args=(keeper.meter(), every, began, looks, stop), daemon=True)
    thread.start()
    try:
        yield looks
    finally:
        stop.set()
        thread.join(timeout=60)


def _look(
    meter: FootprintMeter, every: float, began: float, looks: list[tuple[float, Footprint]], stop: threading.Event
) -> None:
    while not stop.wait(every):
        if (footprint := meter.read()) is not None:
            looks.append((clock() - began, footprint))


def _telling(
    stand: ProofContext, soaked: SoakResult, looks: Sequence[tuple[float, Footprint]], began: float, seconds: float
) -> Callable[[StreamTally, int], None]:
    told = [0]

    def on_tick(tally: StreamTally, flying: int) -> None:
        gone = clock() - began
        if int(_TOLD * gone / seconds) <= told[0] or gone >= seconds:
            return
        told[0] = int(_TOLD * gone / seconds)
        failed = sum(seen.error is not None for seen in soaked.asked)
        held = f", engine {units.format_memory(looks[-1][1].engine_bytes)}" if looks else ""
        progress = f"{len(soaked.asked):,} answers, {failed} failed{held}"
        stand.tell(f"  {progress}; {units.format_duration(seconds - gone)} of load left")

    return on_tick


def _restarted(restart: Callable[[], None], users: _Users) -> Restarted:
    """The users go on asking while the engine ends, is away, loads and comes back; then one more round of each."""
    reasons: list[str] = []

    def act() -> None:
        time.sleep(_BEFORE_RESTART_SECONDS)
        try:
            restart()
        except UprightError as error:
            reasons.append(error.message)

    during: list[SoakedRequest] = []
    after: list[SoakedRequest] = []
    began = clock()
    thread = threading.Thread(target=act)
    thread.start()
    while thread.is_alive():
        users.ask(during, users.load(_SLICE_SECONDS))
        thread.join(timeout=0.25 if users.soaked.gone else 0)
    seconds = clock() - began - _BEFORE_RESTART_SECONDS
    if not reasons:
        users.ask(after, users.load(), rounds=1)
    return Restarted(seconds, next(iter(reasons), None), tuple(during), tuple(after))


def kinds(seen: Sequence[SoakedRequest]) -> dict[str, int]:
    """Failures by their kind, the most frequent first."""
    return dict(Counter(request.error for request in seen if request.error is not None).most_common())
