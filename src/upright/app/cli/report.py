"""`upright share report`."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from upright.app.cli.output import Output, say
from upright.base.errors import UsageError

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "brave-browser", "microsoft-edge")
"""Of those that print a page by themselves."""

if TYPE_CHECKING:
    from upright.flows.line.writing_reports import ReportFormat


@click.command()
@click.argument("what", metavar="[DEPLOYMENT | BENCHMARK.json]...", nargs=-1)
@click.option(
    "-o", "--output", "path", type=click.Path(path_type=Path, dir_okay=False),
    help="Where to write it.  [default: the deployment's directory, or here for several]",
)  # fmt: skip
@click.option("--markdown", "as_markdown", is_flag=True, help="Write Markdown instead of HTML.")
@click.option("--csv", "as_csv", is_flag=True, help="Write every cell of every benchmark as CSV instead.")
@click.option("--json", "as_json", is_flag=True, help="Print the page's path as JSON.")
def command(what: tuple[str, ...], path: Path | None, as_markdown: bool, as_csv: bool, as_json: bool) -> None:
    """Write the report: one page, self-contained.

    Of two or more it says which is better, where, by how much and how sure. A benchmark's own file may be named too.
    """
    from upright.flows.line.writing_reports import write_named_report

    if as_markdown and as_csv:
        raise UsageError("--markdown and --csv exclude each other", hint="write two reports")
    ending: ReportFormat = "md" if as_markdown else "csv" if as_csv else "html"
    page = write_named_report(what, ending, path)
    Output(as_json, None).answer({"page": str(page)}, lambda console: console.print(str(page), soft_wrap=True))
    if ending == "html" and (browser := next(filter(None, map(shutil.which, BROWSERS)), None)):
        pdf, address = shlex.quote(str(page.with_suffix(".pdf"))), f"file://{quote(str(page))}"
        say(f"as PDF: {browser} --headless --no-pdf-header-footer --print-to-pdf={pdf} {address}")
    say(f"next: open file://{page} in a browser" if ending == "html" else f"next: less {page}")
