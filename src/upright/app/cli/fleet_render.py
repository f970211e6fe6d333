"""`upright fleet render`."""

from __future__ import annotations

from pathlib import Path

import click

from upright.app.cli.fleet_options import fleet_argument
from upright.app.cli.output import Output, output_options, say

TO = ("shell", "systemd", "quadlet", "kubernetes", "cluster", "slurm")


@click.command(name="render")
@fleet_argument
@click.option("--to", type=click.Choice(TO), default="shell", show_default=True, help="What to write.")
@click.option("--folder", default="/etc/upright/router", show_default=True, help="Where its files will lie there.")
@click.option("--into", type=click.Path(path_type=Path, file_okay=False), help="Write all of its files here.")
@click.option("--rdma", metavar="INTERFACE", help="For --to cluster: pods speak RDMA, and NCCL through this.")
@output_options
def command(output: Output, file: Path, to: str, folder: str, into: Path | None, rdma: str | None) -> None:
    """Write the router's own files, with a reason for every flag.

    For machines that run without Upright: boxes are then found by their addresses, or on the machine that they share
    with the router; in Kubernetes by the services of their names. `cluster` writes the engines too, values for smg's
    own Helm chart and Jobs that prove each box; `slurm`, an sbatch script. For machines that are not here, a box is
    `at: box:NAME` of the catalogue.
    """
    from upright.facts.store import write_inside
    from upright.flows.fleet import read_fleet
    from upright.flows.fleet.box_plans import plan_fleet
    from upright.flows.fleet.rendering import for_cluster, render_router
    from upright.planning.rendering.cluster_files import PodRdma

    fleet = read_fleet(file)
    if to in ("cluster", "slurm"):
        plans = plan_fleet(fleet, file.parent, tell=say)
        made = for_cluster(fleet, to, plans, wire=PodRdma(rdma) if rdma else None)
    else:
        made = render_router(fleet, to, folder=folder)
    if into is not None:
        for name, text in made.files.items():
            write_inside(into / name, text, into)
            (into / name).chmod(0o755 if name.endswith(".sh") else 0o644)
            say(f"wrote {into / name}")
    output.answer(made.recipe, lambda console: None)
    if into is None:
        output.show(made.files[made.main].rstrip("\n"))
    output.next("fleet", "plan" if to in ("cluster", "slurm") else "up", str(file))
