"""source + client -> a model that stands and a client that talks to it; when the client ends, the engine does too.

`upright launch` executes `launch_agent`: it is `run` as far as the rung `tools`, then the client's own first request,
then the client.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

from upright.base.errors import UsageError
from upright.base.progress import Tell
from upright.facts import store
from upright.facts.records.deployment import Deployment
from upright.facts.records.plan import Goal
from upright.facts.store import DeploymentDir
from upright.flows.line.flow import LineRun, run
from upright.flows.line.preparing import LaunchTarget
from upright.planning.requests.library import recommend
from upright.planning.requests.plan_arguments import NamedBox, box_named, measurements
from upright.serving.connect import ClientSettings, connect, write_settings
from upright.serving.connect.client_process import refuse_missing_client, run_client, smaller_variant, variant_in
from upright.serving.connect.client_trial import ClientTrial, try_settings
from upright.serving.fetch import BackgroundFetch
from upright.serving.launch import stop

PROVED_TO = "tools"


@dataclass(frozen=True)
class ClientOptions:
    """Which client, and what the person tells it."""

    client: str
    arguments: tuple[str, ...] = ()
    write: bool = False
    """Write the settings into the client's own file too."""


@dataclass(frozen=True)
class AgentSession:
    """How far it came. Without a trial the model did not stand; without an exit code the client was not started."""

    run: LineRun
    trial: ClientTrial | None = None
    exit_code: int | None = None


def refuse_early(wish: ClientOptions, *, keep: bool) -> None:
    """What needs neither a model nor an engine to be wrong."""
    refuse_missing_client(wish.client)
    if wish.write and not keep:
        raise UsageError(
            "--write would leave settings of an engine that is stopped when the client ends",
            hint="--keep leaves it running; without --write the settings are those of the client's process alone",
        )


def recommended_model(goal: Goal, on: LaunchTarget, *, tell: Tell) -> str:
    """The best of the catalogue for that machine; of those whose engine is installed, unless a container brings it."""
    box = box_named(NamedBox(f"ssh:{on.machine}" if on.machine else None))
    measured = measurements()
    recommendation = recommend(box, goal, most=None, measured=measured)
    if not recommendation.offers:
        hint = "upright recommend --why, or name a model: --model MODEL"
        raise UsageError(f"nothing can be recommended: {recommendation.why}", hint=hint)
    best = recommendation.offers[0]
    installed = {install.engine for install in box.engines}
    if on.runtime != "process" or best.engine in installed:
        offer = best
    else:  # each installed engine has artifacts of its own: another of a better model may be the one it loads
        engines = sorted(installed) if goal.engine is None else []
        firsts = [recommend(box, goal, most=1, measured=measured, engine=engine).offers[:1] for engine in engines]
        ranks = {named.model: rank for rank, named in reversed(list(enumerate(recommendation.offers)))}
        offers = [first for offered in firsts for first in offered]
        if not offers:
            raise UsageError(
                f"{best.source} runs on {best.engine}, not installed here",
                hint=f"upright tools engine how {best.engine}",
            )
        offer = min(offers, key=lambda offered: ranks.get(offered.model, len(ranks)))
    tell(f"recommended: {offer.source} ({offer.quant}) on {offer.engine}, {offer.context_tokens:,} tokens of context")
    return offer.source


def launch_agent(
    source: str,
    goal: Goal,
    on: LaunchTarget,
    wish: ClientOptions,
    *,
    port: int,
    keep: bool,
    tell: Tell,
    weights: BackgroundFetch,
) -> AgentSession:
    refuse_early(wish, keep=keep)
    with ended_like_ctrl_c():
        done = run(source, goal, on, port=port, to=PROVED_TO, keep=True, tell=tell, weights=weights)
        if done.deployment is None:
            return AgentSession(done)
        try:
            return _with_client(done, store.find(done.deployment.name), wish, tell)
        finally:
            if not keep:
                _stopped(done.deployment.name, tell)


def _stopped(name: str, tell: Tell) -> None:
    """Whatever signal comes meanwhile, and though nobody may be there to be told: the terminal may be gone."""
    with signals_kept_off():
        with suppress(OSError):
            tell("stopping")
        stop(store.find(name))


def _with_client(done: LineRun, directory: DeploymentDir, wish: ClientOptions, tell: Tell) -> AgentSession:
    if not done.stands:
        return AgentSession(done)
    settings = connect(directory.read(Deployment), directory.key_file, wish.client)
    trial, arguments = _tried(settings, directory.key(), wish, tell)
    if not trial.works:
        return AgentSession(done, trial)
    if wish.write:
        tell(f"wrote {write_settings(settings)}")
    return AgentSession(done, trial, run_client(settings, directory.key(), arguments))


def _tried(settings: ClientSettings, key: str, wish: ClientOptions, tell: Tell) -> tuple[ClientTrial, Sequence[str]]:
    """As the person wants it; where that does not fit, as the client's smaller request does."""
    trial = try_settings(settings, key, variant=variant_in(wish.client, wish.arguments))
    smaller = smaller_variant(wish.client)
    if trial.works or smaller is None or smaller in wish.arguments:
        return trial, wish.arguments
    second = try_settings(settings, key, variant=smaller)
    if not second.works:
        return trial, wish.arguments
    tell(f"started with {smaller}, since otherwise {trial.why[0]}")
    return second, (smaller, *wish.arguments)


@contextmanager
def signals_kept_off() -> Iterator[None]:
    """A closing terminal sends its signal twice, and people press Ctrl-C twice."""

    def note(number: int, frame: FrameType | None) -> None:
        """Heard, and nothing done: it is ending already."""

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def ended_like_ctrl_c() -> Iterator[None]:
    """A terminal that is closed, or a polite kill, leaves no engine running either."""

    def end(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
