"""`upright top`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from upright.cli.options import Address, Seconds, often_enough
from upright.cli.output import Output, output_options, page_width
from upright.errors import UsageError

if TYPE_CHECKING:
    from upright.monitoring.power import Watts
    from upright.monitoring.stations import DeploymentSource, Look, Sight, Station
    from upright.store import DeploymentDir

_DEAD = frozenset({"failed", "hung", "degraded", "silent"})


@click.command()
@click.argument("deployments", nargs=-1, metavar="[DEPLOYMENT]...")
@click.option("--base-url", "base_urls", type=Address(), multiple=True,
              help="An engine that upright did not start; may be repeated.")  # fmt: skip
@click.option("--key-file", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="A file with its key.")
@click.option("--every", type=Seconds(), default="2s", show_default=True, help="How often each is asked.")
@click.option("--once", is_flag=True, help="Print one table and stop; so it is without a terminal, and with --json.")
@output_options
def command(
    deployments: tuple[str, ...], base_urls: tuple[str, ...], key_file: Path | None, every: float, once: bool,
    output: Output,
) -> None:  # fmt: skip
    """Watch deployments live: tokens, queue, cache, errors, watts.

    Without names, every deployment that runs or has failed, also those that come later. q or Ctrl-C leaves.
    """
    with ExitStack() as stack:
        watched = _Watched(deployments, base_urls, key_file, often_enough(every), stack)
        if not watched.stations:
            raise UsageError("no deployment runs", hint="upright up MODEL, or --base-url URL")
        if once or output.wants_record or not sys.stdout.isatty():
            _print_once(watched, output, every)
        else:
            _live(watched, every)
    _next(watched.sights(), output, every)


class _Watched:
    """The stations of this call; without names, new deployments join."""

    def __init__(
        self, names: tuple[str, ...], urls: tuple[str, ...], key_file: Path | None, every: float, stack: ExitStack
    ) -> None:
        self._all, self._every, self._stack = not names and not urls, every, stack
        self._meters: dict[str | None, Callable[[], Watts | None]] = {}
        self.stations: dict[str, Station] = {}
        from upright import store

        for name in names:
            self._add(store.find(name))
        for url in urls:
            self._start(url, _foreign_source(url, key_file), machine="")
        self.look_around()

    def look_around(self) -> None:
        """Deployments that came since; those that were stopped on purpose go."""
        from upright import store
        from upright.records.deployment import RUNNING

        if not self._all:
            return
        for entry in store.listing():
            if entry.deployment is not None and entry.deployment.state in {*RUNNING, "failed"}:
                self._add(entry.directory)
        gone = [name for name, station in self.stations.items() if station.sight().look.state == "stopped"]
        for name in gone:
            self.stations.pop(name).__exit__(None, None, None)

    def sights(self) -> list[Sight]:
        return [station.sight() for station in self.stations.values()]

    def _add(self, directory: DeploymentDir) -> None:
        from upright.records.deployment import Deployment

        if directory.name not in self.stations:
            self._start(directory.name, _source(directory), directory.read(Deployment).machine)

    def _start(self, name: str, source: DeploymentSource, machine: str | None) -> None:
        from upright.monitoring.stations import Station

        station = Station(source, self._every, self._meter(machine))
        self.stations[name] = self._stack.enter_context(station)

    def _meter(self, machine: str | None) -> Callable[[], Watts | None]:
        """One for each machine; a server that is nobody's deployment stands on a machine that we do not know."""
        from upright.host import LocalHost, SshHost
        from upright.monitoring.power import PowerMeter

        if machine == "":
            return lambda: None
        if machine not in self._meters:
            meter = PowerMeter(LocalHost() if machine is None else SshHost(machine))
            self._meters[machine] = self._stack.enter_context(meter).watts
        return self._meters[machine]


def _source(directory: DeploymentDir) -> DeploymentSource:
    from upright.monitoring.stations import DeploymentSource
    from upright.monitoring.target import deployment_target
    from upright.records.deployment import Deployment
    from upright.records.recipe import Recipe

    deployment = directory.read(Deployment)
    target = deployment_target(deployment, directory.read(Recipe), directory.key_file)
    if target is None:
        return DeploymentSource(lambda: _look(directory), deployment.base_url, None, path=None)
    url = f"{target.scheme}://{target.address}"
    return DeploymentSource(lambda: _look(directory), url, directory.key() if target.key_file else None, target.path)


def _look(directory: DeploymentDir) -> Look:
    from upright.launching import status
    from upright.monitoring.stations import Look
    from upright.showing.pages import why

    now = status(directory)
    return Look(
        name=now.name,
        state=now.state,
        reason=why(now) or None,
        software=" ".join(filter(None, (now.engine, now.engine_version))),
        model=now.served_name,
        base_url=now.base_url,
        next=f"upright {'diagnose' if now.state in {*_DEAD, 'ready'} else 'logs'} {now.name}",
    )


def _foreign_source(url: str, key_file: Path | None) -> DeploymentSource:
    from upright.monitoring.stations import DeploymentSource, Look

    name = url.partition("//")[2].strip("/") or url
    look = Look(name=name, state="answers", base_url=url, next=f"curl -s {url.rstrip('/')}/health")
    return DeploymentSource(lambda: look, url, key_file.read_text().strip() if key_file else None)


def _print_once(watched: _Watched, output: Output, every: float) -> None:
    """Two readings, so that there are rates; what does not answer is waited for no longer than one reading may take."""
    from rich.text import Text

    from upright.monitoring.stations import PATIENCE_SECONDS
    from upright.showing.top_page import as_row, table

    deadline = time.monotonic() + PATIENCE_SECONDS + 2 * every
    while time.monotonic() < deadline and not all(station.settled for station in watched.stations.values()):
        time.sleep(0.05)
    sights, silent = watched.sights(), _silent(every)
    rows = [as_row(sight, silent) for sight in sights]
    output.answer(rows, lambda console: console.print(Text("\n").join(table(sights, page_width(), silent))))


def _live(watched: _Watched, every: float) -> None:
    from upright.showing.top_page import screen
    from upright.terminal.screen import Screen

    with Screen() as terminal:
        try:
            while True:
                columns, lines = terminal.size
                clock = time.strftime("%H:%M:%S")
                terminal.draw(screen(watched.sights(), columns, lines, clock, every, _silent(every)))
                if not terminal.wait(min(every, 1.0)):
                    return
                watched.look_around()
        except KeyboardInterrupt:
            return


def _silent(every: float) -> float:
    """A reading older than this is late: a turn, and as long as one may take."""
    from upright.monitoring.stations import PATIENCE_SECONDS

    return 2 * every + PATIENCE_SECONDS


def _next(sights: list[Sight], output: Output, every: float) -> None:
    from upright.showing.top_page import state_of

    for sight in sights:
        if state_of(sight, _silent(every)) in _DEAD and sight.look.next and sight.look.next.startswith("upright "):
            output.next(*sight.look.next.split()[1:])
            return
    foreign = next((sight.look.base_url for sight in sights if sight.look.state == "answers"), None)
    output.next(*(("bench", "--base-url", foreign, "--model", "NAME") if foreign else ("monitor",)))
