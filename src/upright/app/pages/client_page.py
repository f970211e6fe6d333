"""Sentences about a client's first request, or about a launch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from upright.base import units
from upright.flows.line.agent import AgentSession
from upright.serving.connect.client_trial import ClientTrial
from upright.serving.fetch import FetchNeed

_LINKS = {"100 Mbit/s": 100e6 / 8, "1 Gbit/s": 1e9 / 8}


def trial_sentences(deployment: str, client: str, trial: ClientTrial) -> Iterator[str]:
    if trial.works:
        yield f"{deployment} answered a request with these settings{_first_prompt(client, trial)}"
    for reason in trial.why:
        yield f"{client} will not work with {deployment}: {reason}"
    yield from (f"try: {advice}" for advice in trial.advice)
    for fault in trial.faults:
        yield f"warning: its stream is not as clients expect it: {fault}"


def _first_prompt(client: str, trial: ClientTrial) -> str:
    if not trial.measured or trial.prompt_tokens is None or trial.seconds is None:
        return ""
    return f", as large as the first of {client}: {trial.prompt_tokens:,} tokens in {trial.seconds:.1f} s"


def session_sentences(session: AgentSession, client: str) -> Iterator[str]:
    """How far it came, where that is not the client itself."""
    done = session.run
    if done.deployment is None:
        objections = done.prepared.plan.objections
        yield f"{client} was not started: the plan says no" + (f": {objections[0].message}" if objections else "")
    elif session.trial is None:
        yield f"{client} was not started: {done.deployment.name} did not pass what was proved"
        failed = (seen for seen in (done.evidence.observations if done.evidence else ()) if seen.verdict == "failed")
        yield from (f"  {seen.rung}, {seen.check}: {seen.reason}" for seen in failed)
    elif session.exit_code is None:
        yield from trial_sentences(done.deployment.name, client, session.trial)
    elif session.exit_code:
        yield f"{client} ended with code {session.exit_code}"


def session_json(session: AgentSession, client: str) -> dict[str, Any]:
    """The same for a program."""
    done = session.run
    return {
        "client": client,
        "stands": done.stands,
        "deployment": done.deployment.to_dict() if done.deployment else None,
        "trial": session.trial.model_dump(mode="json") if session.trial else None,
        "exit_code": session.exit_code,
    }


def download_words(need: FetchNeed) -> str:
    """What a download takes: bytes, disk, time."""
    missing = need.missing_bytes
    times = ", ".join(f"{units.format_duration(missing / rate)} at {name}" for name, rate in _LINKS.items())
    return (
        f"{units.format_size(missing)} of {need.source} to fetch into {need.room.folder} "
        f"({units.format_size(need.room.free_bytes)} free there): {times}"
    )
