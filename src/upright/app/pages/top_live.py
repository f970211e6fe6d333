"""`upright tools top`: the table once, or a live screen."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from upright.app.pages.deployment_pages import state_reason
from upright.app.pages.top_page import screen, state_of
from upright.base.terminal.screen import Screen
from upright.serving.launch import status
from upright.serving.monitor.polling import PATIENCE_SECONDS, DeploymentReading, DeploymentSummary

if TYPE_CHECKING:
    from upright.facts.store import DeploymentDir
    from upright.flows.line.watched_deployments import WatchedDeployments

_DEAD = frozenset({"failed", "hung", "degraded", "silent"})


def look_at(directory: DeploymentDir) -> DeploymentSummary:
    """A deployment as it is now, and the command that says more."""
    now = status(directory)
    return DeploymentSummary(
        name=now.name,
        state=now.state,
        reason=state_reason(now) or None,
        software=" ".join(filter(None, (now.engine, now.engine_version))),
        model=now.served_name,
        base_url=now.base_url,
        next=f"upright {'diagnose' if now.state in {*_DEAD, 'ready'} else 'logs'} {now.name}",
    )


def silent_after(every: float) -> float:
    """A reading older than this is late: a turn, and as long as one may take."""
    return 2 * every + PATIENCE_SECONDS


def read_twice(watched: WatchedDeployments, every: float) -> list[DeploymentReading]:
    """Two readings, so that there are rates; what does not answer is waited for no longer than one reading may take."""
    deadline = time.monotonic() + silent_after(every)
    while time.monotonic() < deadline and not all(station.settled for station in watched.stations.values()):
        time.sleep(0.05)
    return watched.sights()


def live(watched: WatchedDeployments, every: float) -> None:
    """Until q or Ctrl-C."""
    with Screen() as terminal:
        try:
            while True:
                columns, lines = terminal.size
                clock = time.strftime("%H:%M:%S")
                terminal.draw(screen(watched.sights(), columns, lines, clock, every, silent_after(every)))
                if not terminal.wait(min(every, 1.0)):
                    return
                watched.look_around()
        except KeyboardInterrupt:
            return


def next_words(sights: Sequence[DeploymentReading], every: float) -> list[str]:
    """What to type about the first that is in trouble; else how to measure, or what else there is."""
    for sight in sights:
        in_trouble = state_of(sight, silent_after(every)) in _DEAD
        if in_trouble and sight.look.next and sight.look.next.startswith("upright "):
            return sight.look.next.split()[1:]
    foreign = next((sight.look.base_url for sight in sights if sight.look.state == "answers"), None)
    return ["bench", "--base-url", foreign, "--model", "NAME"] if foreign else ["ps"]
