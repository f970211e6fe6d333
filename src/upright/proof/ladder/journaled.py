"""A climb whose every observation is on disk before the next question, and which goes on where it was killed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby

from upright.base.progress import utc_now
from upright.facts.records.base import upgrade_content
from upright.facts.records.evidence import Climb, Evidence, Observation, Step
from upright.facts.store import DeploymentDir
from upright.facts.store.journal import lines
from upright.proof.ladder.estimating import EarlierTiming
from upright.proof.ladder.ladder import Listener, climb
from upright.proof.ladder.rung import ProofOptions, ProofTarget
from upright.serving.endpoint.client import Endpoint

_PAUSE_SECONDS = 60.0
"""Restarts and pauses of a rung, beside its answers."""


def journaled_climb(
    directory: DeploymentDir, target: ProofTarget, endpoint: Endpoint, options: ProofOptions, listener: Listener
) -> Evidence:
    """Observations of an interrupted climb of the same thing with the same prompts count; they are not asked again."""
    prompts = f"{options.questions.name}:{options.questions.digest}"
    seen = interrupted(directory, target.reference, prompts)
    if seen:
        listener.tell(f"going on where the last climb was interrupted: {len(seen)} answers are kept")
    with directory.writer() as journal:

        def mark(event: str, reason: str | None = None) -> None:
            fields = {"subject": target.reference, "prompts": prompts, "to_rung": options.to, "reason": reason}
            journal.append(Climb.model_validate({"event": event, "at": utc_now(), **fields}))

        def on_observation(made: Observation) -> None:
            journal.append(made)
            if listener.observation is not None:
                listener.observation(made)

        if seen is None:
            mark("begun")
        journaling, known = replace(listener, observation=on_observation), earlier_timings(directory, prompts)
        evidence = climb(target, endpoint, options, journaling, seen=seen or (), known=known)
        directory.write(evidence)  # before the end is marked: a climb that ended has its record
        mark("ended", evidence.ended)
    return evidence


def interrupted(directory: DeploymentDir, subject: str, prompts: str) -> list[Observation] | None:
    """What a climb without an end saw; None if the last climb of this subject with these prompts ended."""
    seen: list[Observation] | None = None
    for line in lines(directory.evidence_file):
        where = f"{directory.evidence_file} entry {line.seq}"
        if line.kind == Climb.kind:
            mark = upgrade_content(Climb, line.schema, line.content, where=where)
            same = (mark.subject, mark.prompts) == (subject, prompts)
            seen = [] if mark.event == "begun" and same else None
        elif line.kind == Observation.kind and seen is not None:
            seen.append(upgrade_content(Observation, line.schema, line.content, where=where))
    return seen


def earlier_timings(directory: DeploymentDir, prompts: str) -> dict[str, EarlierTiming]:
    """What each rung took in the last climb with these prompts that came to its end."""
    known: dict[str, EarlierTiming] = {}
    seen: list[Observation] = []
    for line in lines(directory.evidence_file):
        where = f"{directory.evidence_file} entry {line.seq}"
        if line.kind == Observation.kind:
            seen.append(upgrade_content(Observation, line.schema, line.content, where=where))
        elif line.kind == Climb.kind:
            mark = upgrade_content(Climb, line.schema, line.content, where=where)
            if mark.event == "ended" and mark.prompts == prompts:
                known |= _timed(seen)
            seen = []
    return known


def _timed(seen: Sequence[Observation]) -> Iterator[tuple[str, EarlierTiming]]:
    """From the end of the rung before to its own last answer; a rung in which something was left out says nothing."""
    before: str | None = None
    for rung, members in groupby(seen, key=lambda observation: observation.rung):
        asked = list(members)
        wall = _seconds(before, asked[-1].at) if before else None
        before = asked[-1].at
        spoken = sum(observation.seconds for observation in asked)
        if wall is None or wall > 2 * spoken + _PAUSE_SECONDS:  # it was interrupted in between
            wall = spoken
        load = max((observation.measured.get("steady_seconds", 0.0) for observation in asked), default=0.0)
        if all(not observation.left_out for observation in asked):
            yield rung, EarlierTiming(len(asked), wall, load)


def _seconds(start: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


def unfinished_step(directory: DeploymentDir) -> Step | None:
    """A change that was being tried when the climb was killed."""
    last = None
    for step in directory.entries(Step):
        last = step
    return last if last is not None and last.outcome == "trying" else None
