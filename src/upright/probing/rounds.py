"""Host -> Box, in two round trips: what is there, and what the engines found say of themselves."""

from __future__ import annotations

from upright.host import Host
from upright.probing import machine, software
from upright.probing.questions import ask
from upright.records.box import Box

FIRST_ROUND = {**machine.QUESTIONS, **software.QUESTIONS}


def probe(host: Host) -> Box:
    """Never fails for what a machine does not tell: that becomes an unknown with its reason."""
    answers = ask(host, FIRST_ROUND)
    answers = {**answers, **ask(host, software.engine_questions(answers))}
    total, available = machine.read_memory(answers)
    return Box(
        name=host.name,
        basis="probed",
        cpu=machine.read_cpu(answers),
        memory_bytes=total,
        memory_available_bytes=available,
        engines=software.read_engines(answers),
    )
