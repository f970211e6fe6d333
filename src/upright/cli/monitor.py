"""`upright monitor`."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from upright.cli.options import Seconds, often_enough
from upright.cli.output import Output, say
from upright.errors import UsageError

if TYPE_CHECKING:
    from upright.monitoring.target import MetricsTarget
    from upright.store import DeploymentDir


@click.command()
@click.argument("deployments", nargs=-1, metavar="[DEPLOYMENT]...")
@click.option("--fleet", metavar="FLEET|FILE", help="The router and every box of this fleet.")
@click.option("-o", "--output", "folder", type=click.Path(path_type=Path, file_okay=False), default="monitoring",
              show_default=True, help="Write the files into this folder.")  # fmt: skip
@click.option("--every", type=Seconds(), default="15s", show_default=True, help="How often Prometheus asks.")
@click.option("--patience", type=Seconds(), default="1m", show_default=True,
              help="How long an engine may be silent; slower faults get some times as long.")  # fmt: skip
@click.option("--ttft", type=Seconds(), default="2s", show_default=True, help="The promise: 95 % of first tokens.")
@click.option("--tpot", type=Seconds(), default="50ms", show_default=True, help="The promise: 95 % of other tokens.")
@click.option("--alertmanager", "alertmanagers", multiple=True, metavar="HOST:PORT", help="Where alerts are sent.")
@click.option("--dry-run", is_flag=True, help="Say what would be written, and write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON on stdout.")
def command(
    deployments: tuple[str, ...], fleet: str | None, folder: Path, every: float, patience: float, ttft: float,
    tpot: float, alertmanagers: tuple[str, ...], dry_run: bool, as_json: bool,
) -> None:  # fmt: skip
    """Write what Prometheus and Grafana need to watch deployments.

    Without names, every deployment that runs. The files hold no key, only where it lies.
    """
    from upright.monitoring.alerts import AlertLimits
    from upright.monitoring.files import MonitorWishes, monitoring_files
    from upright.monitoring.prometheus_folder import judged_by_promtool, write_files
    from upright.showing.monitor_page import monitor_page, monitor_shown

    for address in alertmanagers:
        if not re.fullmatch(r"[\w.\[\]:-]+:\d+", address):
            raise UsageError(f"{address!r} is no HOST:PORT", hint="--alertmanager 127.0.0.1:9093")
    limits = AlertLimits(patience_seconds=patience, first_token_seconds=ttft, token_seconds=tpot)
    wishes = MonitorWishes(often_enough(every), limits, alertmanagers)
    targets = _fleet_targets(fleet) if fleet is not None else []
    targets += _targets(deployments, alone=fleet is None)
    files = monitoring_files(targets, wishes, folder.absolute())
    changed: list[str] = []
    if not dry_run:
        changed = write_files(folder, files)
        if judged_by_promtool(folder):
            say("promtool accepts the configuration and the rules")
    shown = monitor_shown(targets, wishes, folder, files)
    Output(as_json, None).answer(shown, lambda console: monitor_page(console, shown, dry_run=dry_run))
    if changed:
        say(f"note: {', '.join(changed)} changed; for a Prometheus that runs already: kill -HUP $(pgrep -x prometheus)")
    _say_keys(targets)
    Output(as_json, None).next("top", *deployments)


def _fleet_targets(name: str) -> list[MetricsTarget]:
    """All its boxes have the same key: one job, however many they are."""
    from upright import store
    from upright.cli.fleet_options import started
    from upright.fleet.directory import FleetDir

    directory = FleetDir(started(name).name)
    state = directory.state()
    names = [state.router, *(box.deployment for box in state.boxes)]
    targets = [
        target
        for deployment_name in names
        if deployment_name is not None
        for target in _target(store.find(deployment_name))
    ]
    shared = directory.path / "worker.key"
    return [replace(target, key_file=shared) if target.key_file else target for target in targets]


def _targets(names: tuple[str, ...], *, alone: bool) -> list[MetricsTarget]:
    from upright import store
    from upright.records.deployment import RUNNING

    if names or not alone:
        return [target for name in names for target in _target(store.find(name))]
    running = [entry for entry in store.listing() if entry.deployment is not None and entry.deployment.state in RUNNING]
    targets = [target for entry in running for target in _target(entry.directory)]
    if not targets:
        raise UsageError("no deployment runs", hint="upright up MODEL, or name one that is stopped")
    return targets


def _target(directory: DeploymentDir) -> list[MetricsTarget]:
    from upright.monitoring.target import deployment_target
    from upright.records.deployment import Deployment
    from upright.records.recipe import Recipe

    target = deployment_target(directory.read(Deployment), directory.read(Recipe), directory.key_file)
    if target is None:
        say(f"note: {directory.name} has no metrics that can be reached from here, and is left out")
    return [] if target is None else [target]


def _say_keys(targets: list[MetricsTarget]) -> None:
    files = sorted({str(target.key_file) for target in targets if target.key_file is not None})
    if files:
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        say(f"note: Prometheus must be able to read {files[0]}{more}: only you can; run it as yourself")
