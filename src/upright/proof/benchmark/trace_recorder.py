"""Records requests as an AgentTrace: lengths, times and shared prefixes, no text.

A prompt is kept as a chain of keyed hashes, one for each message and all before it; the key dies with the recording. A
request whose beginning is the whole of an earlier one goes on from its answer; a second that does so is a fork.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from upright.facts.records.trace import MOST_SESSIONS, MOST_TURNS, AgentTrace, TraceFork, TraceSession, TraceTurn

_BLOCK = 512
"""Characters of a prompt without messages that are hashed together."""
_LONGEST_SECONDS = 86_400.0
_MOST_DEPTH = 40
_MOST_RECORDED = 20_000


@dataclass(frozen=True)
class PrefixChain:
    """A prompt without its words."""

    hashes: tuple[bytes, ...]
    """Of each message with all before it."""
    lengths: tuple[int, ...]
    """Characters of each message."""

    def share_of(self, other: PrefixChain) -> float:
        """Of its characters, those that both begin with."""
        alike = 0
        for mine, theirs in zip(self.hashes, other.hashes, strict=False):
            if mine != theirs:
                break
            alike += 1
        return sum(self.lengths[:alike]) / max(1, sum(self.lengths))


@dataclass(eq=False)
class RecordedTurn:
    """One request and its answer."""

    session: RecordedSession
    chain: PrefixChain
    sent_at: float
    size: int
    """Messages of its prompt."""
    answer_mark: bytes = b""
    """The chain with the first message after what it goes on from: that turn's answer, unless it was compacted."""
    ended_at: float | None = None
    """None while it is in flight, and of one that failed."""
    prompt_tokens: int = 0
    output_tokens: int = 0
    failed: bool = False


@dataclass(eq=False)
class RecordedSession:
    """Turns that go on from one another."""

    left: RecordedTurn | None
    """Of a fork: the turn whose answer it begins with."""
    turns: list[RecordedTurn] = field(default_factory=list)

    @property
    def answered(self) -> list[RecordedTurn]:
        return [turn for turn in self.turns if turn.ended_at is not None]


class TraceRecorder:
    """Hears of every request when it begins and when it ends, from any thread."""

    def __init__(self) -> None:
        self._key, self._lock = secrets.token_bytes(32), threading.Lock()
        self._sessions: list[RecordedSession] = []
        self._heads: dict[bytes, RecordedTurn] = {}
        self.recorded = self.failed = self.passed_over = 0

    def began(self, body: dict[str, Any], at: float) -> RecordedTurn | None:
        """A request that is one turn of an agent; None if it asks for nothing that can be told, or too much is kept."""
        chain = self._chain(body)
        with self._lock:
            if not chain.hashes or self.recorded >= _MOST_RECORDED:
                self.passed_over += 1
                return None
            before = next((self._heads[mark] for mark in reversed(chain.hashes[:-1]) if mark in self._heads), None)
            mark = chain.hashes[before.size] if before is not None else b""
            if before is not None and _is_return(before, mark):
                self._sessions.append(_apart(before))
            going_on = before is not None and before is _last(before.session)
            session = before.session if before is not None and going_on else RecordedSession(before)
            if not going_on:
                if len(self._sessions) >= MOST_SESSIONS:
                    self.passed_over += 1
                    return None
                self._sessions.append(session)
            turn = RecordedTurn(session, chain, at, len(chain.hashes), mark)
            session.turns.append(turn)
            return turn

    def ended(self, turn: RecordedTurn, at: float, tokens: tuple[int, int] | None) -> None:
        """`tokens`: prompt and answer, as the server counted them; None if it failed or does not say."""
        with self._lock:
            if tokens is None:
                turn.failed = True
                self.failed += 1
                return
            turn.ended_at, (turn.prompt_tokens, turn.output_tokens) = at, tokens
            self._heads[turn.chain.hashes[-1]] = turn
            self.recorded += 1
            if turn is not turn.session.answered[0]:  # only a first prompt is held against others
                turn.chain = PrefixChain(turn.chain.hashes[-1:], (0,))

    def trace(self, title: str) -> AgentTrace | None:
        """What was recorded so far; None if nothing was."""
        with self._lock:
            return _trace(self._sessions, title)

    def _chain(self, body: dict[str, Any]) -> PrefixChain:
        hashes, lengths, before = list[bytes](), list[int](), b""
        for part in _parts(body):
            text = json.dumps(without_marks(part), sort_keys=True, ensure_ascii=False).encode("utf-8", "surrogatepass")
            before = hashlib.blake2b(before + text, key=self._key, digest_size=16).digest()
            hashes.append(before)
            lengths.append(len(text))
        return PrefixChain(tuple(hashes), tuple(lengths))


def _parts(body: dict[str, Any]) -> list[Any]:
    """What a template writes, in its order: tools, system prompt, messages."""
    spoken = body.get("messages", body.get("input", body.get("prompt")))
    if isinstance(spoken, str):
        spoken = [spoken[start : start + _BLOCK] for start in range(0, len(spoken), _BLOCK)]
    if not isinstance(spoken, list) or not spoken:
        return []
    ahead = [body[name] for name in ("tools", "system", "instructions") if body.get(name)]
    return [*ahead, *spoken]


def without_marks(part: Any, depth: int = 0) -> Any:
    """Without what clients move from message to message, and no template writes."""
    if depth > _MOST_DEPTH:
        return None
    if isinstance(part, list):
        return [without_marks(piece, depth + 1) for piece in part]
    if isinstance(part, dict):
        return {str(name): without_marks(piece, depth + 1) for name, piece in part.items() if name != "cache_control"}
    return part


def _last(session: RecordedSession) -> RecordedTurn | None:
    """What a next turn would go on from; a turn in flight is there already."""
    return next((turn for turn in reversed(session.turns) if not turn.failed), None)


def _is_return(before: RecordedTurn, mark: bytes) -> bool:
    """Whether a session goes on from there after a sub-agent that did so first, and has ended."""
    tail = [turn for turn in _tail(before) if not turn.failed]
    return bool(tail) and all(turn.ended_at is not None for turn in tail) and tail[0].answer_mark == mark


def _apart(before: RecordedTurn) -> RecordedSession:
    """What followed that turn so far, as a fork of its own."""
    fork = RecordedSession(before, _tail(before))
    before.session.turns = before.session.turns[: -len(fork.turns)]
    for turn in fork.turns:
        turn.session = fork
    return fork


def _tail(turn: RecordedTurn) -> list[RecordedTurn]:
    turns = turn.session.turns
    return turns[next(place for place, one in enumerate(turns) if one is turn) + 1 :]


def _trace(sessions: Sequence[RecordedSession], title: str) -> AgentTrace | None:
    told = sorted((one for one in sessions if one.answered), key=lambda session: session.answered[0].sent_at)
    if not told:
        return None
    parts: dict[int, list[RecordedSession]] = {}
    """By a session: itself, and what it became after each compaction."""
    places: dict[int, tuple[int, int]] = {}
    """By a session, compacted ones too: where it stands in the trace, and how many turns stand before its own."""
    for session in told:
        if session.left is not None and _is_compaction(session):
            whole = parts[id(session.left.session)]
            before = sum(len(part.answered) for part in whole)
            places[id(session)] = (places[id(whole[0])][0], before)
            whole.append(session)
        else:
            parts[id(session)] = [session]
            places[id(session)] = (len(parts), 0)
    roots = [whole[0] for whole in parts.values() if whole[0].left is None]
    began_at = told[0].answered[0].sent_at
    made = tuple(_session(whole, told, places, roots, began_at) for whole in parts.values())
    return AgentTrace(title=title, source="recorded by upright tools record", sessions=made)


def _session(
    whole: Sequence[RecordedSession],
    told: Sequence[RecordedSession],
    places: dict[int, tuple[int, int]],
    roots: Sequence[RecordedSession],
    began_at: float,
) -> TraceSession:
    first, *compacted = whole
    turns = _turns(first, told)
    for later in compacted:
        turns += _after_compaction(whole[whole.index(later) - 1], first, later, told)
    begins = first.answered[0].sent_at - (began_at if first.left is None else first.left.ended_at or 0.0)
    return TraceSession(
        begins_seconds=_seconds(begins),
        forked_from=_fork(first, places),
        shared_tokens=_shared_tokens(first, roots),
        turns=tuple(turns[:MOST_TURNS]),
    )


def _is_compaction(session: RecordedSession) -> bool:
    """It begins as a session did whose last word is spoken: that session, with only its beginning kept."""
    left = session.left
    if left is None or left.session.left is not None or left is not left.session.answered[0]:
        return False
    if any(turn.answer_mark == session.answered[0].answer_mark for turn in left.session.answered[1:2]):
        return False
    return all((turn.ended_at or 0.0) <= session.answered[0].sent_at for turn in left.session.answered)


def _after_compaction(
    before: RecordedSession, first: RecordedSession, later: RecordedSession, told: Sequence[RecordedSession]
) -> list[TraceTurn]:
    kept, turns = first.answered[0].prompt_tokens, _turns(later, told)
    changes = {
        "kept_tokens": kept,
        "new_tokens": max(1, later.answered[0].prompt_tokens - kept),
        "wait_seconds": _seconds(later.answered[0].sent_at - _ended(before)),
    }
    return [turns[0].model_copy(update=changes), *turns[1:]]


def _turns(session: RecordedSession, told: Sequence[RecordedSession]) -> list[TraceTurn]:
    made, before = list[TraceTurn](), session.left
    for turn in session.answered:
        held = before.prompt_tokens + before.output_tokens if before is not None else 0
        ends = [_ended(fork) for fork in told if made and fork.left is before and _is_joined(fork)]
        since = max([*ends, (before.ended_at or 0.0) if before is not None else turn.sent_at])
        made.append(
            TraceTurn(
                wait_seconds=_seconds(turn.sent_at - since) if made else 0.0,
                new_tokens=max(1, turn.prompt_tokens - held),
                output_tokens=max(1, turn.output_tokens),
            )
        )
        before = turn
    return made


def _fork(session: RecordedSession, places: dict[int, tuple[int, int]]) -> TraceFork | None:
    left = session.left
    if left is None:
        return None
    place, before = places[id(left.session)]
    turn = min(before + _place(left) + 1, MOST_TURNS)
    return TraceFork(session=place, turn=turn, joined=_is_joined(session))


def _is_joined(fork: RecordedSession) -> bool:
    """Whether the session that it left went on only when it had ended."""
    assert fork.left is not None
    later = fork.left.session.answered[_place(fork.left) + 1 :]
    return bool(later) and later[0].sent_at >= _ended(fork)


def _place(turn: RecordedTurn) -> int:
    return next(place for place, one in enumerate(turn.session.answered) if one is turn)


def _ended(session: RecordedSession) -> float:
    return session.answered[-1].ended_at or 0.0


def _shared_tokens(session: RecordedSession, roots: Sequence[RecordedSession]) -> int:
    """With the first session, by characters; of the first one itself the most that another shares with it."""
    if session.left is not None or len(roots) < 2:
        return 0
    first, *others = (root.answered[0] for root in roots)
    own = session.answered[0]
    if own is first:
        return int(own.prompt_tokens * max(own.chain.share_of(other.chain) for other in others))
    return int(own.prompt_tokens * own.chain.share_of(first.chain))


def _seconds(span: float) -> float:
    return round(min(max(span, 0.0), _LONGEST_SECONDS), 3)
