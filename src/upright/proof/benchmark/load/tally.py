"""Streams that ended -> counts, sums and quantiles, in memory that does not grow with the number of tokens.

A request leaves a few numbers; the gaps between its tokens go into buckets 1 % wide, their sum is kept exactly.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate

from upright.facts.records.benchmark import Samples, Spread

SAMPLES = 32
"""Answers whose text is kept for the guards."""
_MOST_CLOCKED = 20_000
"""Successes whose clocks a cell keeps: of more the line of evidence would grow beyond a megabyte."""
_TEXT_LIMIT = 20_000


class Buckets:
    """Positive values in buckets 1 % wide: exact count, sum, least and greatest; quantiles within 1 %."""

    _STEP = math.log(1.01)
    _LEAST = 1e-7

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()
        self.count = 0
        self.total = 0.0
        self.low = math.inf
        self.high = 0.0

    def add_between(self, times: Sequence[float]) -> None:
        """The gaps between times that rise."""
        counts, log, scale, offset = self.counts, math.log, 1 / self._STEP, math.log(self._LEAST) / self._STEP
        before = times[0]
        for now in times[1:]:
            gap = now - before
            before = now
            self.low = min(self.low, gap)
            self.high = max(self.high, gap)
            counts[int(log(gap) * scale - offset) if gap > 1e-7 else 0] += 1
        self.count += len(times) - 1
        self.total += times[-1] - times[0]

    def quantile(self, share: float) -> float:
        wanted = share * (self.count - 1)
        seen = 0
        for bucket in sorted(self.counts):
            seen += self.counts[bucket]
            if seen > wanted:
                middle = self._LEAST * math.exp((bucket + 0.5) * self._STEP)
                return min(max(middle, self.low), self.high)
        return self.high

    def spread(self) -> Spread | None:
        if not self.count:
            return None
        return Spread(
            count=self.count, mean=self.total / self.count, low=self.low, high=self.high,
            p50=self.quantile(0.5), p90=self.quantile(0.9), p99=self.quantile(0.99),
        )  # fmt: skip


class StreamTally:
    """All streams of one cell."""

    def __init__(self, sample_every: int = 1) -> None:
        self.sent = 0
        self.succeeded = 0
        self.unfinished = 0
        self.errors: Counter[str] = Counter()
        self.error_samples: dict[str, str] = {}
        self.finish_reasons: Counter[str] = Counter()
        self.ttft = array("d")
        self.tpot = array("d")
        self.each = array("d")
        """Beside `ttft`, request by request: the time per output token, 0 where there is none to measure."""
        self.latency = array("d")
        self.sent_at = array("d")
        self.last_at = array("d")
        """The time of the last token."""
        self.pieces = array("L")
        self.late = array("d")
        self.prompt = array("L")
        self.output = array("L")
        self.cached: int | None = None
        self.drafted: int | None = None
        self.accepted: int | None = None
        self.gaps = Buckets()
        self.by_tenth: defaultdict[int, float] = defaultdict(float)
        """Output tokens by tenths of a second since the start."""
        self.texts: list[tuple[str, str, int]] = []
        """(text, finish reason, tokens) of sampled answers."""
        self.prompt_off = 0
        """Successes whose prompt was not as long as it should be, by more than 1 % and a token."""
        self.began = math.inf
        self.ended = 0.0
        self._sample_every = sample_every

    def fail(self, kind: str, words: str) -> None:
        self.errors[kind] += 1
        self.error_samples.setdefault(kind, words[:300])

    def succeed(
        self, times: Sequence[float], sent_at: float, ended_at: float, usage: dict[str, int], reason: str,
        *, asked_prompt: int | None, text: str,
    ) -> None:  # fmt: skip
        """A whole answer: the times of its pieces, and what the server counted."""
        output = usage["output"]
        self.succeeded += 1
        self.finish_reasons[reason] += 1
        self.ttft.append(times[0] - sent_at)
        self.latency.append(ended_at - sent_at)
        self.sent_at.append(sent_at)
        self.last_at.append(times[-1])
        self.pieces.append(len(times))
        measured = output > 1 and len(times) > 1  # an answer of one token, or in one piece, has no time between tokens
        self.each.append((times[-1] - times[0]) / (output - 1) if measured else 0.0)
        if measured:
            self.tpot.append(self.each[-1])
        self.prompt.append(usage.get("prompt", 0))
        self.output.append(output)
        if asked_prompt is not None and abs(usage.get("prompt", 0) - asked_prompt) > max(1, asked_prompt / 100):
            self.prompt_off += 1
        for name in ("cached", "drafted", "accepted"):
            if name in usage:
                setattr(self, name, (getattr(self, name) or 0) + usage[name])
        self.gaps.add_between(times)
        each, began, by_tenth = output / len(times), self.began, self.by_tenth
        for now in times:
            by_tenth[int(10 * (now - began))] += each
        if len(self.texts) < SAMPLES and self.succeeded % self._sample_every == 0:
            self.texts.append((text[:_TEXT_LIMIT], reason, output))

    def clocked(self) -> Samples | None:
        """Every success by its clock; None of none, and of too many to keep."""
        if not 0 < self.succeeded <= _MOST_CLOCKED:
            return None

        def since_began(times: Iterable[float]) -> tuple[int, ...]:
            return tuple(round((time - self.began) * 1e6) for time in times)

        first = (sent + ttft for sent, ttft in zip(self.sent_at, self.ttft, strict=True))
        ended = (sent + latency for sent, latency in zip(self.sent_at, self.latency, strict=True))
        return Samples(
            sent_us=since_began(self.sent_at), first_us=since_began(first), last_us=since_began(self.last_at),
            ended_us=since_began(ended), pieces=tuple(self.pieces),
            prompt_tokens=tuple(self.prompt), output_tokens=tuple(self.output),
        )  # fmt: skip

    def peak_tokens_per_second(self) -> float | None:
        """Of any second, or of the whole, which is a stretch of a second too; None where it is shorter."""
        if not self.by_tenth or self.seconds < 1:
            return None
        tenths = [self.by_tenth.get(tenth, 0.0) for tenth in range(max(self.by_tenth) + 1)]
        sums = [0.0, *accumulate(tenths)]
        windows = (sums[end] - sums[end - 10] for end in range(10, len(sums)))
        return max((*windows, sum(self.output) / self.seconds))

    @property
    def seconds(self) -> float:
        return max(self.ended - self.began, 1e-9) if self.sent else 0.0
