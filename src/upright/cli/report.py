"""`upright report`."""

from __future__ import annotations

from pathlib import Path

import click

from upright.cli.options import deployment_argument
from upright.cli.output import Output, say


@click.command()
@deployment_argument
@click.option(
    "-o", "--output", "path", type=click.Path(path_type=Path, dir_okay=False),
    help="Where to write the page.  [default: the deployment's directory]",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the page's path as JSON.")
def command(deployment: str | None, path: Path | None, as_json: bool) -> None:
    """Write the report: one page, self-contained."""
    from upright import store
    from upright.line import write_report

    page = write_report(store.find(deployment), path.absolute() if path else None)
    output = Output(as_json, None)
    output.answer({"page": str(page)}, lambda console: console.print(str(page), soft_wrap=True))
    say(f"next: open file://{page} in a browser")
