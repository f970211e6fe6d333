"""Streams as engines send them, each broken in one way: every fault is named, and a whole stream has none."""

from __future__ import annotations

import pytest

from tests.scripted.protocol import FAULTS, Fault, lines_of, message, said
from upright.serving.connect.responses_stream import responses_faults
from upright.serving.connect.streams import anthropic_faults, anthropic_overlaps, openai_faults

JUDGES = {"chat": openai_faults, "messages": anthropic_faults, "responses": responses_faults}


@pytest.mark.parametrize("stream", ["text", "tool"])
def test_a_whole_stream(stream: str) -> None:
    assert openai_faults([": keep-alive", "", *lines_of("chat", stream)]) == []
    assert anthropic_faults(["event: ping", 'data: {"type": "ping"}', "", *lines_of("messages", stream)]) == []
    assert responses_faults([*lines_of("responses", stream), "data: [DONE]", ""]) == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.words)
def test_every_fault_is_named(fault: Fault) -> None:
    lines = lines_of(fault.protocol, fault.stream, fault)
    (named,) = JUDGES[fault.protocol](lines)
    assert named.startswith(fault.words)


def test_an_event_under_another_name() -> None:
    assert anthropic_faults(said(message(), {2: "content_block_stop"})) == [
        "the event content_block_stop says that it is content_block_delta"
    ]


def test_blocks_that_overlap_are_told_once() -> None:
    """As llama.cpp b11669 streams a thought and its answer."""
    events = message()
    events[3:3] = [
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text"}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "OK"}},
    ]
    events.insert(6, {"type": "content_block_stop", "index": 1})
    assert anthropic_overlaps(said(events)) == ["block 1 starts before block 0 has stopped"]
    assert anthropic_faults(said(events)) == []


def test_nothing_at_all() -> None:
    assert "no [DONE]" in openai_faults([])
    assert "no message_stop" in anthropic_faults([])
    assert "no response.completed" in responses_faults([])
