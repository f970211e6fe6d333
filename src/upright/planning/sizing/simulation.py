"""Simulates a fleet and what its users would see.

Events, not steps: between two events the steps of a box are all alike, so many of them are one jump, and a turn costs
a handful of events however many tokens it writes. Whoever arrives in between waits for the end of a step.
"""

from __future__ import annotations

import heapq
import math
from collections import OrderedDict, deque
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from upright.planning.sizing.deck import DECK, Deck, at_least_one
from upright.planning.sizing.outcome import SimulationOutcome
from upright.planning.sizing.router import cache_aware, power_of_two
from upright.planning.sizing.service import Service
from upright.planning.sizing.setting import SimulationSetting
from upright.planning.sizing.usage import Usage

_RETRY_SECONDS = 5.0
_FREE, _NO_STREAM, _NO_ROOM = range(3)


def simulate(setting: SimulationSetting) -> SimulationOutcome:
    return _Run(setting).run()


class _Talk:
    """A user's present conversation."""

    __slots__ = (
        "answer", "asked_at", "blocked", "box", "first_at", "need", "number", "opened", "prefix", "prompt_left",
        "sent_tokens", "stays", "token_seconds", "turns_left",
    )  # fmt: skip

    def __init__(self, number: int, stays: bool) -> None:
        self.number = number  # of the conversation: what caches are keyed by
        self.stays = stays  # begins another when this one is over
        self.opened = False
        self.box: _Box | None = None
        self.prefix = 0  # tokens of the conversation so far
        self.sent_tokens = 0  # of the prompt before: the router does not see answers
        self.turns_left = 0
        self.need = 0  # tokens this turn holds in the cache when it ends
        self.answer = 0
        self.prompt_left = 0
        self.token_seconds = 0.0  # of each prompt token that is left
        self.blocked = _FREE
        self.asked_at = 0.0
        self.first_at = 0.0


class _Box:
    __slots__ = (
        "began", "cached", "cached_tokens", "carried", "count", "decoding", "decoding_tokens", "held_tokens",
        "place", "prompting", "running", "sent", "step", "steps", "up", "version", "waiting",
    )  # fmt: skip

    def __init__(self, place: int) -> None:
        self.place = place
        self.up = True
        self.version = 0  # of the one event that it has in the calendar
        self.began = 0.0  # when the present steps began,
        self.step = 0.0  # how long each takes; 0 while idle
        self.count = 0  # and how many there will be
        self.carried: list[tuple[_Talk, int]] = []  # prompt tokens that each of these steps takes from whom
        self.steps = 0  # that were made before these
        self.decoding: list[tuple[int, int, _Talk]] = []  # by the step that writes the last token
        self.decoding_tokens = 0
        self.prompting: deque[_Talk] = deque()
        self.waiting: deque[_Talk] = deque()
        self.running = 0
        self.sent = 0  # requests, ever
        self.held_tokens = 0
        self.cached: OrderedDict[int, int] = OrderedDict()  # prefixes of conversations that are not running
        self.cached_tokens = 0

    @property
    def load(self) -> int:
        return self.running + len(self.waiting)


class _Run:
    def __init__(self, setting: SimulationSetting) -> None:
        self.setting = setting
        self.service = setting.service
        self.usage = setting.usage
        self.random = Random(setting.seed)  # noqa: S311 (a simulation, no secrets)
        self.decode = [setting.service.decode_seconds(count) for count in range(setting.service.streams + 1)]
        self.pauses = Deck(setting.usage.pauses(DECK), self.random)
        self.turns = Deck(at_least_one(setting.usage.turns.steps(DECK), setting.usage.turns.mean), self.random)
        # What everybody begins with is in a cache once.
        self.shared = setting.usage.shared_tokens
        self.pool = max(1, setting.service.pool_tokens - self.shared)
        self.boxes = [_Box(place) for place in range(setting.boxes)]
        self.calendar: list[tuple[float, int, Callable[[Any, int], None], int, Any]] = []
        self.order = 0
        self.talks = 0
        self.turn_of = 0
        self.last_sent: _Box | None = None  # which box was sent what everybody begins with last
        self.now = 0.0
        self.counts_from = math.inf if setting.settle_seconds else setting.warm_up_seconds
        self.end = self.counts_from + setting.seconds
        self.warm = SteadyState()
        self.outcome = SimulationOutcome(simulated_seconds=setting.seconds, boxes=setting.boxes)

    def run(self) -> SimulationOutcome:
        setting = self.setting
        self._meet_users()
        if setting.arrivals_per_second is not None:
            self._put(self.random.expovariate(setting.arrivals_per_second), self._arrive, None)
        for at, number in setting.trace:
            talk = self._fresh(stays=False)
            talk.box = self.boxes[number]
            self._put(at, self._ask, talk)
        if setting.hours_between_failures is not None:
            for box in self.boxes:
                self._put(self._until_failure(), self._fail, box)
        if setting.settle_seconds:
            self._put(setting.warm_up_seconds, self._look, None)
        elif setting.fails_at_seconds is not None:
            self._put(self.counts_from + setting.fails_at_seconds, self._fail_where_most_is, None)
        calendar, pop = self.calendar, heapq.heappop
        while calendar and calendar[0][0] <= self.end:
            self.now, _, what, version, who = pop(calendar)
            what(who, version)
        self.now = self.end
        for box in self.boxes:
            if box.step:
                self._count_busy(box)
        self.outcome.events = self.order - len(calendar)
        return self.outcome

    def _look(self, _: Any, __: int) -> None:
        """At the end of a window of the warm-up: what follows counts, once answers take no longer than before."""
        setting = self.setting
        if not self.warm.settled():
            self._put(self.now + setting.settle_seconds, self._look, None)
            return
        self.counts_from, self.end = self.now, self.now + setting.seconds
        if setting.fails_at_seconds is not None:
            self._put(self.now + setting.fails_at_seconds, self._fail_where_most_is, None)

    def _put(self, at: float, what: Callable[[Any, int], None], who: Any, version: int = 0) -> None:
        self.order += 1
        heapq.heappush(self.calendar, (at, self.order, what, version, who))

    # --- conversations

    def _fresh(self, stays: bool) -> _Talk:
        self.talks += 1
        return _Talk(self.talks, stays)

    def _meet_users(self) -> None:
        """As they are at a moment that nobody chose: being answered, or in the middle of a pause; most of them in the
        middle of a conversation, and whoever was answered last has the freshest prefix in a cache. Pauses of an hour
        would take hours to forget a start that is not so.
        """
        users, random = self.setting.users, self.random.random
        if not users:
            return
        talks = [self._in_the_middle(int(turns + random())) for turns in self.turns.met(users)]
        held = sum(talk.prefix for talk in talks) / users
        answering = answering_of(self.service, self.usage, users / len(self.boxes), held)
        met: list[tuple[float, _Talk]] = []
        for talk, pause in zip(talks, self.pauses.met(users), strict=True):
            paused, left = 0.0, random() * answering.seconds
            if random() >= answering.share:
                left = random() * pause
                paused = pause - left
            met.append((paused, talk))
            self._put(left, self._ask, talk)
        for place, (_, talk) in enumerate(sorted(met, key=lambda pair: -pair[0])):
            if talk.opened:
                talk.box = self.boxes[place % len(self.boxes)]
                self._keep(talk.box, talk.number, talk.prefix - self.shared)

    def _in_the_middle(self, turns: int) -> _Talk:
        """A user as one meets them: somewhere in a conversation of so many turns."""
        usage, talk = self.usage, self._fresh(stays=True)
        behind = self.random.randrange(turns)
        if behind:
            growth = usage.turn_tokens.mean + usage.answer_tokens.mean
            room = max(1.0, usage.longest_tokens - usage.shared_tokens)
            grown = (usage.opening_tokens.mean + usage.answer_tokens.mean + growth * (behind - 1)) % room
            talk.opened, talk.turns_left = True, turns - behind
            talk.prefix = min(usage.longest_tokens, usage.shared_tokens + int(grown))
            talk.sent_tokens = max(usage.shared_tokens, talk.prefix - int(usage.answer_tokens.mean))
        return talk

    def _arrive(self, _: Any, __: int) -> None:
        assert self.setting.arrivals_per_second is not None
        self._put(self.now + self.random.expovariate(self.setting.arrivals_per_second), self._arrive, None)
        self._ask(self._fresh(stays=False), 0)

    def _ask(self, talk: _Talk, _: int) -> None:
        """A turn begins."""
        usage, random = self.usage, self.random
        if not talk.opened or talk.turns_left <= 0:
            talk = self._open(talk)
            added = usage.opening_tokens.whole(random)
        else:
            added = usage.turn_tokens.whole(random)
        answer = min(usage.answer_tokens.whole(random), max(1, usage.longest_tokens - usage.shared_tokens - 1))
        if talk.prefix + added + answer > usage.longest_tokens and talk.prefix > usage.shared_tokens:
            turns = talk.turns_left
            talk = self._open(talk)  # as an agent that compacts: the same work goes on from a short prefix
            talk.turns_left = turns
        added = min(added, max(1, usage.longest_tokens - talk.prefix - answer))
        talk.turns_left -= 1
        talk.answer = answer
        talk.asked_at = self.now
        talk.need = talk.prefix + added + answer
        self._send(talk, 0)

    def _open(self, talk: _Talk) -> _Talk:
        """Another conversation of the same person; its prefix is its own, and so is its place in caches."""
        self.talks += 1
        talk.number = self.talks
        talk.opened = True
        if talk.stays:
            talk.box = None
        talk.prefix, talk.sent_tokens, talk.turns_left = self.shared, 0, self.turns.whole()
        return talk

    def _send(self, talk: _Talk, _: int) -> None:
        box = self._route(talk)
        if box is None:  # nobody is up
            self._put(self.now + _RETRY_SECONDS, self._send, talk)
            return
        talk.box = self.last_sent = box
        talk.sent_tokens = talk.need - talk.answer
        box.sent += 1
        if talk.asked_at >= self.counts_from:
            self.outcome.sent_by_box[box.place] += 1
        talk.blocked = self._blocked(box, talk)
        box.waiting.append(talk)
        if not box.step:
            self._begin(box)
        elif not box.carried and not talk.blocked and len(box.waiting) == 1:
            self._stop_after_this_step(box)

    def _route(self, talk: _Talk) -> _Box | None:
        boxes, setting, router = self.boxes, self.setting, self.setting.router
        if router is not None and router.policy == "power_of_two":
            return power_of_two(boxes, self.random)
        if router is not None and router.policy == "cache_aware":
            own = talk.box is not None and talk.sent_tokens > self.shared
            known_at, known_tokens = (talk.box, talk.sent_tokens) if own else (self.last_sent, self.shared)
            return cache_aware(
                boxes, router, known_at=known_at, known_tokens=known_tokens, prompt_tokens=talk.need - talk.answer
            )
        if setting.routing == "affinity":
            return talk.box if talk.box is not None and talk.box.up else self._less_loaded()
        for _ in boxes:
            if setting.routing == "random":
                box = boxes[int(self.random.random() * len(boxes))]
            else:
                self.turn_of = (self.turn_of + 1) % len(boxes)
                box = boxes[self.turn_of]
            if box.up:
                return box
        return next((box for box in boxes if box.up), None)

    def _less_loaded(self) -> _Box | None:
        """The less loaded of two, as routers do; any living one when both are down."""
        boxes, random = self.boxes, self.random.random
        one, other = boxes[int(random() * len(boxes))], boxes[int(random() * len(boxes))]
        if one.up and other.up:
            return one if len(one.waiting) + one.running <= len(other.waiting) + other.running else other
        if one.up or other.up:
            return one if one.up else other
        return next((box for box in boxes if box.up), None)

    def _finish(self, talk: _Talk, box: _Box) -> None:
        """The last token of a turn is out."""
        box.running -= 1
        own = talk.need - self.shared
        box.held_tokens -= own
        if not self.usage.answers_stay:
            own -= talk.answer
        talk.prefix = talk.need
        self._keep(box, talk.number, own)
        self.warm.add(self.now - talk.asked_at)
        if talk.asked_at >= self.counts_from:
            outcome = self.outcome
            outcome.turns += 1
            outcome.answer_seconds += self.now - talk.asked_at
            outcome.answered_tokens += talk.answer
            outcome.last_seconds = self.now
            outcome.first_token_seconds.add(talk.first_at - talk.asked_at + self.service.answer_seconds)
            if talk.blocked == _NO_ROOM:
                outcome.waited_for_room += 1
            elif talk.blocked == _NO_STREAM:
                outcome.waited_for_stream += 1
            if talk.answer > 1 and self.now > talk.first_at:
                outcome.tokens_per_second.add((talk.answer - 1) / (self.now - talk.first_at))
        if talk.stays or talk.turns_left > 0:
            self._put(self.now + self.pauses.draw(), self._ask, talk)

    # --- boxes

    def _begin(self, box: _Box) -> None:
        """At the end of a step: admit, and see what the next steps carry and how many of them are alike."""
        self._admit(box)
        service, decoding, prompting = self.service, box.decoding, box.prompting
        box.version += 1
        box.carried = []
        if not decoding and not prompting:
            box.step = 0.0
            return
        box.began = self.now
        step = self.decode[len(decoding)] + service.cached_token_seconds * box.decoding_tokens
        count = decoding[0][0] - box.steps if decoding else math.inf
        if prompting:
            alike, reading = self._carry(box)
            step += reading
            count = min(count, alike)
        box.step, box.count = step, int(count)
        self._put(self.now + box.count * step, self._reach, box, box.version)

    def _carry(self, box: _Box) -> tuple[int, float]:
        """Which prompt tokens the next step takes along: how many such steps in a row, and their seconds."""
        most, prompting = self.service.step_prompt_tokens, box.prompting
        first = prompting[0]
        start = 0.0 if box.decoding else self.service.prompt_step_seconds
        if first.prompt_left >= most:
            box.carried.append((first, most))
            return first.prompt_left // most, start + most * first.token_seconds
        room, seconds = most, start
        for talk in prompting:
            taken = min(room, talk.prompt_left)
            box.carried.append((talk, taken))
            seconds += taken * talk.token_seconds
            room -= taken
            if not room:
                break
        return 1, seconds

    def _reach(self, box: _Box, version: int) -> None:
        """The steps that were alike are made: prompts are read, answers written."""
        if version != box.version:
            return  # the box has another next event by now
        self._count_busy(box)
        box.steps += box.count
        for talk, taken in box.carried:
            talk.prompt_left -= taken * box.count
        while box.prompting and box.prompting[0].prompt_left <= 0:
            talk = box.prompting.popleft()
            talk.first_at = self.now
            heapq.heappush(box.decoding, (box.steps + talk.answer - 1, talk.number, talk))
            box.decoding_tokens += talk.need - talk.answer // 2  # on the average of its steps
        while box.decoding and box.decoding[0][0] <= box.steps:
            talk = heapq.heappop(box.decoding)[2]
            box.decoding_tokens -= talk.need - talk.answer // 2
            self._finish(talk, box)
        self._begin(box)

    def _stop_after_this_step(self, box: _Box) -> None:
        """Somebody came: the present step is the last of its kind."""
        count = int((self.now - box.began) / box.step + 1e-9) + 1
        if count < box.count:
            box.count = count
            box.version += 1
            self._put(max(self.now, box.began + count * box.step), self._reach, box, box.version)

    def _count_busy(self, box: _Box) -> None:
        since = max(box.began, self.counts_from)
        if self.now > since:
            self.outcome.busy_seconds += self.now - since

    def _blocked(self, box: _Box, talk: _Talk) -> int:
        if box.running >= self.service.streams:
            return _NO_STREAM
        if box.running and box.held_tokens + talk.need - self.shared > self.pool:
            return _NO_ROOM
        return _FREE

    def _admit(self, box: _Box) -> None:
        """First come, first served, while the engine has a sequence free and the cache has room."""
        waiting = box.waiting
        while waiting:
            talk = waiting[0]
            blocked = self._blocked(box, talk)
            if blocked:
                talk.blocked = max(talk.blocked, blocked)
                return
            waiting.popleft()
            self._start(box, talk)

    def _start(self, box: _Box, talk: _Talk) -> None:
        prompt = talk.need - talk.answer
        cached = box.cached.pop(talk.number, 0)
        box.cached_tokens -= cached
        reused = min(cached + self.shared, prompt - 1)
        box.running += 1
        box.held_tokens += talk.need - self.shared
        self._make_room(box)
        talk.prompt_left = prompt - reused
        talk.token_seconds = self.service.read_seconds(reused, prompt) / talk.prompt_left
        box.prompting.append(talk)
        if talk.asked_at >= self.counts_from:
            outcome = self.outcome
            outcome.prompt_tokens += prompt
            outcome.reused_tokens += reused
            outcome.reread_tokens += max(0, talk.prefix - reused)
            outcome.queued_seconds += self.now - talk.asked_at

    def _keep(self, box: _Box, number: int, prefix_tokens: int) -> None:
        box.cached[number] = prefix_tokens
        box.cached_tokens += prefix_tokens
        self._make_room(box)

    def _make_room(self, box: _Box) -> None:
        """Prefixes longest unused are dropped first."""
        while box.cached and box.held_tokens + box.cached_tokens > self.pool:
            box.cached_tokens -= box.cached.popitem(last=False)[1]

    def _fail_where_most_is(self, _: Any, __: int) -> None:
        most = max(self.boxes, key=lambda box: (box.running + len(box.waiting), box.cached_tokens))
        if most.up:
            self._fail(most, 0)

    def _fail(self, box: _Box, _: int) -> None:
        """Its streams are cut and asked again elsewhere; what it had cached is gone."""
        if box.step:
            self._count_busy(box)
        cut = [*box.prompting, *(entry[2] for entry in box.decoding)]
        left = [*cut, *box.waiting]
        if self.now >= self.counts_from:
            self.outcome.failures += 1
            self.outcome.cut += len(cut)
        fresh, version = _Box(box.place), box.version + 1
        fresh.sent = box.sent
        for name in _Box.__slots__:
            setattr(box, name, getattr(fresh, name))
        box.version, box.up = version, False
        self._put(self.now + self.setting.repair_seconds, self._recover, box)
        for talk in left:
            self._send(talk, 0)

    def _recover(self, box: _Box, _: int) -> None:
        box.up = True
        if self.setting.hours_between_failures is not None:
            self._put(self.now + self._until_failure(), self._fail, box)

    def _until_failure(self) -> float:
        assert self.setting.hours_between_failures is not None
        return self.random.expovariate(1 / (self.setting.hours_between_failures * 3600))


class Answering(NamedTuple):
    share: float
    """Of users."""
    seconds: float
    """From being asked to the last token."""


def answering_of(service: Service, usage: Usage, users: float, held_tokens: float) -> Answering:
    """`users` of one box, whose conversations hold so many tokens on average."""
    pause = usage.mean_pause_seconds

    def seconds(streams: float) -> float:
        step = service.decode_seconds(round(streams)) + service.cached_token_seconds * streams * held_tokens
        prompt = service.read_seconds(int(held_tokens), int(held_tokens + usage.turn_tokens.mean))
        # Each answer is kept waiting by the prompts that are read meanwhile.
        return usage.answer_tokens.mean * step + prompt * max(1.0, streams)

    low, high = 0.0, float(service.streams)
    for _ in range(40):
        streams = (low + high) / 2
        wanted = users * seconds(streams) / (pause + seconds(streams))
        low, high = (streams, high) if wanted > streams else (low, streams)
    answer = seconds(high)
    if high >= service.streams * 0.999:  # full: whoever asks waits for a stream
        answer = max(answer, users * answer / service.streams - pause)
    return Answering(answer / (pause + answer), answer)


_STEADY = 0.05
"""By which the mean of a window may be above that of the one before."""
_MOST_WINDOWS = 8


class SteadyState:
    """Whether answers take as long as in the windows before."""

    __slots__ = ("count", "means", "seconds")

    def __init__(self) -> None:
        self.count, self.seconds = 0, 0.0
        self.means: list[float] = []

    def add(self, seconds: float) -> None:
        self.count += 1
        self.seconds += seconds

    def settled(self) -> bool:
        """At the end of a window. A fleet that is too small never settles, and shows it in what is counted."""
        self.means.append(self.seconds / self.count if self.count else 0.0)
        self.count, self.seconds = 0, 0.0
        if len(self.means) < 2:
            return False
        before, last = self.means[-2:]
        return len(self.means) >= _MOST_WINDOWS or last <= (1 + _STEADY) * before
