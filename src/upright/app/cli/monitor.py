"""`upright tools monitor`."""

from __future__ import annotations

import re
from pathlib import Path

import click

from upright.app.cli.options import SECONDS, checked_interval
from upright.app.cli.output import Output, say
from upright.base.errors import UsageError


@click.command()
@click.argument("deployments", nargs=-1, metavar="[DEPLOYMENT]...")
@click.option("--fleet", metavar="FLEET|FILE", help="The router and every box of this fleet.")
@click.option("-o", "--output", "folder", type=click.Path(path_type=Path, file_okay=False), default="monitoring",
              show_default=True, help="Write the files into this folder.")  # fmt: skip
@click.option("--every", type=SECONDS, default="15s", show_default=True, help="How often Prometheus asks.")
@click.option("--patience", type=SECONDS, default="1m", show_default=True,
              help="How long an engine may be silent; slower faults get some times as long.")  # fmt: skip
@click.option("--ttft", type=SECONDS, default="2s", show_default=True, help="The promise: 95 % of first tokens.")
@click.option("--tpot", type=SECONDS, default="50ms", show_default=True, help="The promise: 95 % of other tokens.")
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
    from upright.app.pages.monitor_page import keys_sentence, monitor_json, monitor_page
    from upright.flows.fleet.metrics_targets import metrics_targets
    from upright.serving.monitor.alerts import AlertLimits
    from upright.serving.monitor.files import MonitorOptions, monitoring_files
    from upright.serving.monitor.prometheus_folder import check_with_promtool, write_files

    for address in alertmanagers:
        if not re.fullmatch(r"[\w.\[\]:-]+:\d+", address):
            raise UsageError(f"{address!r} is no HOST:PORT", hint="--alertmanager 127.0.0.1:9093")
    limits = AlertLimits(patience_seconds=patience, first_token_seconds=ttft, token_seconds=tpot)
    wishes = MonitorOptions(checked_interval(every), limits, alertmanagers)
    targets = metrics_targets(deployments, fleet, say)
    files = monitoring_files(targets, wishes, folder.absolute())
    changed: list[str] = []
    if not dry_run:
        changed = write_files(folder, files)
        if check_with_promtool(folder):
            say("promtool accepts the configuration and the rules")
    shown = monitor_json(targets, wishes, folder, files)
    Output(as_json, None).answer(shown, lambda console: monitor_page(console, shown, dry_run=dry_run))
    if changed:
        say(f"note: {', '.join(changed)} changed; for a Prometheus that runs already: kill -HUP $(pgrep -x prometheus)")
    if (sentence := keys_sentence(targets)) is not None:
        say(sentence)
    Output(as_json, None).next("top", *deployments)
