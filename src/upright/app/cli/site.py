"""`upright tools site`: the planner as static files that plan in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from upright.app.cli.output import Output, output_options, say


@click.group(name="site")
def command() -> None:
    """Publish the planner as a page that works in any browser, offline too."""


@command.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--parts", type=click.Path(path_type=Path), help="Folder with what scripts/get-site-parts fetched.")
@click.option("--first", default="presets", show_default=True, type=click.Choice(["none", "presets", "all"]),
              help="Boxes for which every model is planned now, so that the page answers at once.")  # fmt: skip
@click.option("--address", default="", help="Where it will be: a shared link then shows its picture everywhere.")
@output_options
def build(output: Output, out: Path, parts: Path | None, first: Any, address: str) -> None:
    """Write the page, its Python and its first answers into OUT."""
    from upright.app.site.publishing import publish

    site = publish(out, parts, first=first, address=address, told=say)
    output.answer(site)
    output.show(f"{out}: {site['files']} files, {site['bytes'] / 1e6:.1f} MB, {site['first_answers']} first answers")
    say(f"next: python3 -m http.server --bind 127.0.0.1 --directory {out}")
