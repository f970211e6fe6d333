"""What came of a client's first request -> sentences."""

from __future__ import annotations

from collections.abc import Iterator

from upright.connecting.trying import ClientTrial


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
