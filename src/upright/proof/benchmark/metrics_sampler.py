"""Samples an engine's metrics twice a second during a load.

Pages are only kept while the load runs, and read when it is over: a parser must not make the generator's clock late.
"""

from __future__ import annotations

import asyncio
import contextlib

from upright.base import bounds, units
from upright.base.errors import EndpointError
from upright.facts.records.benchmark import EngineView, Spread
from upright.facts.records.spreads import spread_of
from upright.proof.benchmark.load import LoadTarget, StreamTally
from upright.proof.benchmark.load.wire import Response, WireError
from upright.proof.benchmark.server import Server
from upright.serving.endpoint.metrics import Metrics, read_metrics

_EVERY_SECONDS = 0.5
_PAGES = 240
_MOST_CHARACTERS = 64_000_000
"""Beyond so many every other one is dropped, so that hours take no more memory and time than minutes."""


class Sampler:
    """Reads the page of one engine before, while and after something else runs."""

    def __init__(self, target: LoadTarget, path: str | None) -> None:
        self._target, self._path = target, path
        self._every = _EVERY_SECONDS
        self._pages: list[str] = []
        self._first = self._page_now()

    def start(self) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(self._sample())

    def view(self, tally: StreamTally) -> EngineView | None:
        """What the pages say; what only the answers say (llama.cpp's drafts) fills the gaps."""
        first, last = _read(self._first), _read(self._page_now())
        if first is None or last is None:
            if tally.drafted is None:
                return None
            return EngineView(drafted_tokens=tally.drafted, accepted_tokens=tally.accepted)
        during = [reading for page in self._pages if (reading := _read(page)) is not None]
        grown = last.since(first)
        return EngineView(
            running=_spread(during, "running"),
            waiting=_spread(during, "waiting"),
            kv_used_percent=_spread(during, "kv_usage", 100),
            kv_pool_tokens=_whole(last.kv_tokens),
            prompt_tokens=_whole(grown.prompt_tokens),
            output_tokens=_whole(grown.generation_tokens),
            cached_tokens=_whole(grown.cached_tokens),
            preemptions=_whole(grown.preemptions),
            drafted_tokens=_whole(grown.draft_tokens) if grown.draft_tokens is not None else tally.drafted,
            accepted_tokens=_whole(grown.accepted_tokens) if grown.accepted_tokens is not None else tally.accepted,
        )

    async def _sample(self) -> None:
        if self._first is None:
            return
        while True:
            await asyncio.sleep(self._every)
            # Guard: wait_for of Python 3.11 can swallow a cancellation (github.com/python/cpython/issues/86296).
            with contextlib.suppress(OSError, TimeoutError, WireError):
                async with asyncio.timeout(5):
                    self._pages.append(await self._page())
            if len(self._pages) >= _PAGES or sum(map(len, self._pages)) > _MOST_CHARACTERS:
                del self._pages[::2]
                self._every *= 2

    async def _page(self) -> str:
        assert self._path is not None
        reader, writer = await asyncio.open_connection(
            self._target.host, self._target.port, ssl=self._target.secure or None, limit=2**22
        )
        try:
            writer.write(self._target.get(self._path))
            response, body = Response(), bytearray()
            while not response.finished and (piece := await reader.read(65_536)):
                body += response.feed(piece)
                if len(body) > bounds.MOST_BYTES:
                    raise WireError(f"a page of more than {units.format_size(bounds.MOST_BYTES)}")
            return body.decode(errors="replace")
        finally:
            writer.close()

    def _page_now(self) -> str | None:
        if self._path is None:
            return None
        with Server(self._target) as server:
            return server.text(self._path)


def _read(page: str | None) -> Metrics | None:
    if page is None:
        return None
    try:  # the buckets of histograms are most of a page, and nobody here asks for them
        return read_metrics("".join(line for line in page.splitlines(keepends=True) if "_bucket{" not in line))
    except EndpointError:
        return None


def _spread(readings: list[Metrics], name: str, factor: float = 1) -> Spread | None:
    return spread_of([factor * figure for reading in readings if (figure := getattr(reading, name)) is not None])


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
