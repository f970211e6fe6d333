"""Sends requests from a source at their arrival times, and tallies the streams.

The clock is read just before a request is written and just as a piece is received; what a piece holds is parsed after
every socket that was ready has been read, so that parsing one stream does not make the next one's clock late.
"""

from __future__ import annotations

import asyncio
import gc
import random
import ssl
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from upright.base import bounds
from upright.base.errors import HostError
from upright.proof.benchmark.load.apis import LoadTarget
from upright.proof.benchmark.load.exchange import Exchange, Fault
from upright.proof.benchmark.load.open_files import allow_open_files, out_of_files_error
from upright.proof.benchmark.load.requests import Arrivals, Request, RequestResult, RequestSource
from upright.proof.benchmark.load.tally import StreamTally
from upright.proof.benchmark.load.wire import WireError

clock = time.perf_counter
_TICK_SECONDS = 0.1
_GIVE_UP_AFTER = 8  # connections refused in a row, with nothing in flight: the server is gone


def run(
    target: LoadTarget, source: RequestSource, load: Arrivals, *,
    on_tick: Callable[[StreamTally, int], None] | None = None,
    beside: Callable[[], asyncio.Task[None]] | None = None, sample_every: int = 1,
    on_landing: Callable[[RequestResult], None] | None = None,
) -> tuple[StreamTally, GeneratorStats]:  # fmt: skip
    """Run to the end. `on_tick` hears of it twice a second, `on_landing` of every request when it has ended;
    `beside` starts a task that runs along and is cancelled."""
    allow_open_files(load.concurrency)
    with asyncio.Runner() as runner:
        return runner.run(_Generator(target, source, load, StreamTally(sample_every), on_landing).run(on_tick, beside))


class _Connection(asyncio.Protocol):
    """A socket; all it does by itself is to read the clock."""

    __slots__ = ("closed", "exchange", "owner", "rested", "transport")

    def __init__(self, owner: _Generator) -> None:
        self.owner = owner
        self.exchange: Exchange | None = None
        self.transport: asyncio.Transport | None = None
        self.closed = False
        self.rested = True
        """Whether it lay open before its request: after an answer, or since the start."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.owner.received(self, clock(), data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self.owner.received(self, clock(), None)


class _Generator:
    def __init__(
        self,
        target: LoadTarget,
        source: RequestSource,
        load: Arrivals,
        tally: StreamTally,
        on_landing: Callable[[RequestResult], None] | None,
    ) -> None:
        self.target, self.source, self.load, self.tally = target, source, load, tally
        self.on_landing = on_landing or (lambda landing: None)
        self.flight = GeneratorStats()
        self.connections: set[_Connection] = set()
        self.idle: list[_Connection] = []
        self.flying: set[_Connection] = set()
        self.waiting: deque[Request] = deque()
        self.resting = 0  # requests whose time has not come: a tool runs, or a person thinks
        self.pending: list[tuple[_Connection, float, bytes | None]] = []
        self.over = False
        self.arrived = False  # all that will; conversations that began go on to their end
        self.reuse, self.refused = True, 0
        self.openings: set[asyncio.Task[None]] = set()
        self.full: HostError | None = None
        self._area, self._changed_at = 0.0, 0.0
        self._random = random.Random(load.seed)  # noqa: S311 (arrivals, not secrets)
        self._tls = ssl.create_default_context() if target.secure else None

    async def run(
        self, on_tick: Callable[[StreamTally, int], None] | None, beside: Callable[[], asyncio.Task[None]] | None
    ) -> tuple[StreamTally, GeneratorStats]:
        self.loop = asyncio.get_running_loop()
        self.finished = self.loop.create_future()
        try:
            for start in range(0, self.load.concurrency, 64):
                await asyncio.gather(*(self._open() for _ in range(min(64, self.load.concurrency - start))))
                self._raise_if_full()
            await self._measure(on_tick, beside)
        finally:
            for opening in self.openings:
                opening.cancel()
            await asyncio.gather(*self.openings, return_exceptions=True)
            for connection in self.connections:
                connection.exchange = None
                if connection.transport is not None:
                    connection.transport.abort()
            await asyncio.sleep(0)
        return self.tally, self.flight

    async def _measure(
        self, on_tick: Callable[[StreamTally, int], None] | None, beside: Callable[[], asyncio.Task[None]] | None
    ) -> None:
        companion = beside() if beside is not None else None
        gc.disable()
        cpu = time.process_time()
        try:
            self.began = self._changed_at = clock()
            self._start()
            ticker = self.loop.create_task(self._tick(on_tick))
            await self.finished
            ticker.cancel()
        finally:
            gc.enable()
        self.flight.cpu_seconds = time.process_time() - cpu
        if self.tally.errors.keys() & {"refused", "reset", "cut"} and await self._open() is None:
            self.flight.gone = True
        if companion is not None:
            companion.cancel()
            await asyncio.gather(companion, return_exceptions=True)
        elapsed = self.tally.seconds
        self.flight.in_flight_mean = self._area / elapsed if elapsed else 0.0
        self._raise_if_full()

    def _raise_if_full(self) -> None:
        if self.full is not None:
            raise self.full

    async def _open(self) -> _Connection | None:
        seconds = self.load.patience_seconds
        if self.load.seconds is not None:
            seconds = min(seconds, self.load.seconds + self.load.grace_seconds)
        try:
            async with asyncio.timeout(seconds):
                _, connection = await self.loop.create_connection(
                    lambda: _Connection(self), self.target.host, self.target.port, ssl=self._tls
                )
        except OSError as error:
            self.full = self.full or out_of_files_error(error, len(self.connections))
            self.refused += 1
            self._refusal = str(error) or f"no connection in {seconds:.1f} s"
            return None
        self.refused = 0
        self.connections.add(connection)
        self.idle.append(connection)
        return connection

    def _start(self) -> None:
        if self.load.requests_per_second is not None:
            self.loop.call_soon(self._arrive, self.began)
            return
        step = self.load.ramp_seconds / self.load.concurrency
        for number in range(self.load.concurrency):
            if step:
                self.loop.call_at(self.loop.time() + number * step, self._fresh)
            elif not self._fresh():
                break

    def _fresh(self) -> bool:
        """Send the first request of something new, if there is anything."""
        request = None if self._closing() else self.source.first()
        if request is None:
            self._end_if_empty()
            return False
        self._send_later(request)
        return True

    def _arrive(self, due: float) -> None:
        request = None if self._closing() else self.source.first()
        if request is None:
            self.arrived = True
            self._end_if_empty()
            return
        self.tally.late.append(max(0.0, clock() - due))
        self._send(request)
        assert self.load.requests_per_second is not None
        after = due + self._random.expovariate(self.load.requests_per_second)
        self.loop.call_later(max(0.0, after - clock()), self._arrive, after)

    def _send_later(self, request: Request) -> None:
        if request.wait_seconds:
            self.resting += 1
            self.loop.call_later(request.wait_seconds, self._send_rested, request)
        else:
            self._send(request)

    def _send_rested(self, request: Request) -> None:
        self.resting -= 1
        if self._closing():
            self._end_if_empty()
        elif not self.finished.done():
            self._send(request)

    def _closing(self) -> bool:
        limit = self.load.seconds
        return self.over or (limit is not None and clock() - self.began >= limit)

    def _send(self, request: Request) -> None:
        while self.idle:
            if not (connection := self.idle.pop()).closed:
                return self._write(connection, request)
        self.waiting.append(request)
        self.openings.add(self.loop.create_task(self._open_for_waiting()))
        return None

    async def _open_for_waiting(self) -> None:
        if self.refused:
            await asyncio.sleep(0.05 * min(self.refused, 10))
        connection = await self._open()
        self.openings.discard(cast(asyncio.Task[None], asyncio.current_task()))
        if self.full is not None:
            self.over = True
            if not self.finished.done():
                self.finished.set_result(None)
        if not self.waiting:
            return
        request = self.waiting.popleft()
        if connection is not None:
            self.idle.remove(connection)
            connection.rested = False
            self._write(connection, request)
            return
        self.tally.sent += 1
        self._clock_in(clock())
        self.tally.fail("refused", self._refusal)
        self.on_landing(RequestResult(request, clock(), clock(), error="refused", words=self._refusal))
        if self.refused >= _GIVE_UP_AFTER and not self.flying:
            self.over = True
        self._go_on(request, None)

    def _write(self, connection: _Connection, request: Request) -> None:
        exchange = Exchange(request)
        assert connection.transport is not None
        if connection.transport.is_closing():  # closed by the server, and not yet told to us
            connection.closed = True
            return self._send(request)
        connection.exchange = exchange
        now = exchange.sent_at = exchange.heard_at = clock()
        connection.transport.write(request.payload)
        self._clock_in(now)
        self.tally.sent += 1
        self._fly(now, connection)
        return None

    def _fly(self, now: float, connection: _Connection, *, out: bool = False) -> None:
        self._area += len(self.flying) * max(0.0, now - self._changed_at)
        self._changed_at = max(self._changed_at, now)
        if out:
            self.flying.discard(connection)
            return
        self.flying.add(connection)
        self.flight.in_flight_peak = max(self.flight.in_flight_peak, len(self.flying))

    def _clock_in(self, now: float) -> None:
        if now < self.tally.began:
            self.tally.began = now
        self.tally.ended = max(self.tally.ended, now)

    def received(self, connection: _Connection, now: float, data: bytes | None) -> None:
        if not self.pending:
            self.loop.call_soon(self._drain)
        self.pending.append((connection, now, data))

    def _drain(self) -> None:
        pending, self.pending = self.pending, []
        for connection, now, chunk in pending:
            exchange = connection.exchange
            if exchange is None:
                continue  # idle: the server closed it, or speaks out of turn
            try:
                if chunk is None:
                    self._lost(connection, exchange, now)
                else:
                    self._read(connection, exchange, now, chunk)
            except (WireError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
                self._land(connection, exchange, now, Fault("malformed", str(error) or type(error).__name__))

    def _read(self, connection: _Connection, exchange: Exchange, now: float, data: bytes) -> None:
        fault = exchange.take(data, now, self.target.read)
        if fault is not None:
            self._land(connection, exchange, now, fault)
        elif exchange.response.finished:
            self._land(connection, exchange, now, exchange.fault(), usable=exchange.response.keep_alive)

    def _lost(self, connection: _Connection, exchange: Exchange, now: float) -> None:
        if exchange.response.close():
            self._land(connection, exchange, now, exchange.fault())
        elif connection.rested and not exchange.response.status:
            self._send_again(connection, exchange, now)
        else:
            self._land(connection, exchange, now, exchange.cut())

    def _send_again(self, connection: _Connection, exchange: Exchange, now: float) -> None:
        """An idle connection was closed as we wrote: nobody read the request, so it goes out on a new one."""
        # Guard: llama-server announces keep-alive and closes after every stream, and what lay unused for 5 s (b11669).
        self.reuse = False
        self.flight.reopened += 1
        self.tally.sent -= 1
        connection.exchange = None
        self._fly(now, connection, out=True)
        self._send(exchange.request)

    def _land(
        self, connection: _Connection, exchange: Exchange, now: float, fault: Fault | None, *, usable: bool = False
    ) -> None:
        connection.exchange = None
        connection.rested = True
        self._fly(now, connection, out=True)
        self.tally.ended = max(self.tally.ended, now)
        answer: str | None = None
        if fault is not None:
            self.tally.fail(*fault)
            self.on_landing(RequestResult(exchange.request, exchange.sent_at, now, error=fault.kind, words=fault.words))
        else:
            assert exchange.reason is not None
            answer = "".join(exchange.text)
            self.tally.succeed(
                exchange.times, exchange.sent_at, now, exchange.usage, exchange.reason,
                asked_prompt=exchange.request.prompt_tokens, text=answer,
            )  # fmt: skip
            self.on_landing(
                RequestResult(
                    exchange.request, exchange.sent_at, now, exchange.times[0], answer, exchange.reason, exchange.usage
                )
            )
        if usable and self.reuse and not connection.closed:
            self.idle.append(connection)
        elif connection.transport is not None:
            connection.transport.abort()
            self.connections.discard(connection)
        self._go_on(exchange.request, answer)

    def _go_on(self, request: Request, answer: str | None) -> None:
        """The next turn; in a closed loop otherwise something new."""
        following = None
        if answer is not None and not self._closing():
            following = self.source.following(request, answer)
        if following is not None:
            for later in (following, *following.beside):
                self._send_later(later)
        elif self.load.requests_per_second is None:
            self._fresh()
        else:
            self._end_if_empty()

    def _end_if_empty(self) -> None:
        arriving = self.load.requests_per_second is not None and not (self.over or self.arrived)
        busy = self.flying or self.waiting or self.openings or arriving or (self.resting and not self._closing())
        if not busy and not self.finished.done():
            self.finished.set_result(None)

    async def _tick(self, on_tick: Callable[[StreamTally, int], None] | None) -> None:
        due, count = clock(), 0
        while True:
            due += _TICK_SECONDS
            await asyncio.sleep(max(0.0, due - clock()))
            now = clock()
            self.flight.lag_seconds = max(self.flight.lag_seconds, now - due)
            due = max(due, now - _TICK_SECONDS)
            count += 1
            self._cut_the_stalled(now)
            self._end_if_empty()
            if on_tick is not None and count % 5 == 0:
                on_tick(self.tally, len(self.flying))

    def _cut_the_stalled(self, now: float) -> None:
        limit = self.load.seconds
        timed_out = limit is not None and now - self.began > limit + self.load.grace_seconds
        for connection in tuple(self.flying):
            exchange = connection.exchange
            assert exchange is not None
            if timed_out:
                self.tally.unfinished += 1
                connection.exchange = None
                self._fly(now, connection, out=True)
            elif (fault := self._stalled(exchange, now)) is not None:
                self._land(connection, exchange, now, fault)

    def _stalled(self, exchange: Exchange, now: float) -> Fault | None:
        patience = self.load.patience_seconds
        if now - exchange.heard_at > patience:
            return Fault("stalled", f"nothing of an answer for {patience:g} s")
        longest = bounds.answer_limit_seconds(patience, exchange.request.output_tokens)
        return Fault("too slow", f"no end after {longest:g} s") if now - exchange.sent_at > longest else None


@dataclass
class GeneratorStats:
    """How the generator itself fared."""

    in_flight_peak: int = 0
    in_flight_mean: float = 0.0
    lag_seconds: float = 0.0
    cpu_seconds: float = 0.0
    gone: bool = False
    """The server could no longer be reached."""
    reopened: int = 0
    """Requests that were sent again because the server had closed an idle connection without a word."""
