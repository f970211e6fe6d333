"""`upright tools store`: deployments on disk, and what is wrong with them."""

from __future__ import annotations

import click

from upright.app.cli.options import deployment_argument
from upright.app.cli.output import Output, output_options, say


@click.group(name="store")
def command() -> None:
    """Look after the directories that deployments leave."""


@command.command("list")
@output_options
def list_(output: Output) -> None:
    """List what is kept, with how much evidence and how many bytes.

    This reads records only; `upright ps` also looks whether the engines are still there.
    """
    from upright.app.pages.store_page import list_page, listed_row
    from upright.facts import store

    rows = [listed_row(entry) for entry in store.list_deployments()]
    output.answer(rows, lambda console: list_page(console, rows))
    say(f"kept in {store.home() / 'deployments'}")
    output.next(*(("store", "check") if rows else ("recommend",)))


@command.command()
@click.argument("deployments", nargs=-1, metavar="[DEPLOYMENT|DIR]...")
@output_options
def check(deployments: tuple[str, ...], output: Output) -> None:
    """Find lines and records that were changed, lost or moved.

    Takes deployments by name or by directory, all of them if none is named. The answer is no (exit code 1) if
    anything was changed, is missing, out of order, doubled or cut after it was acknowledged. Nothing is written.
    """
    from upright.app.pages.store_page import check_page, checked_row
    from upright.facts import store

    chosen = [store.find_broken(name) for name in deployments] or store.deployments()
    findings_by_directory = {directory: store.check(directory.path) for directory in chosen}
    answer = [checked_row(directory, findings) for directory, findings in findings_by_directory.items()]
    output.answer(answer, lambda console: check_page(console, findings_by_directory))
    if damaged := [directory.name for directory, row in zip(chosen, answer, strict=True) if not row["sound"]]:
        output.next("store", "repair", damaged[0])
        output.no()
    output.next("ps")


@command.command()
@click.argument("deployment", required=False, metavar="[DEPLOYMENT|DIR]")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@output_options
def repair(deployment: str | None, dry_run: bool, output: Output) -> None:
    """Make a deployment with damaged evidence writable again.

    Evidence is not mended: a log that no longer fits its chain is set aside whole, and a new one begins. Nothing is
    thrown away. The answer is no (exit code 1) if something is wrong that this cannot put right.
    """
    from upright.app.pages.store_page import checked_row
    from upright.facts import store

    directory = store.find(None) if deployment is None else store.find_broken(deployment)
    done = store.repair(directory.path, dry_run=dry_run)
    left = [] if dry_run else [finding for finding in store.check(directory.path) if finding.severity == "problem"]
    answer = {**checked_row(directory, left), "done": done, "dry_run": dry_run}
    lines = [*(done or ["nothing to repair"]), *(f"not repaired: {finding.file} {finding.message}" for finding in left)]
    output.answer(answer, lambda console: console.print("\n".join(f"{directory.name}: {line}" for line in lines)))
    output.next(*(("store", "repair", directory.name) if dry_run and done else ("ps",)))
    if left:
        output.no()


@command.command()
@deployment_argument
@output_options
def path(deployment: str | None, output: Output) -> None:
    """Print a deployment's directory; of the last one if none is named."""
    from upright.facts import store

    directory = store.find(deployment)
    output.answer({"path": str(directory.path)}, lambda console: console.print(str(directory.path), soft_wrap=True))
    output.next("store", "check", directory.name)
