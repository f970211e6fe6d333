"""`upright tools read MODEL`: what a model is made of, as a table by group and a picture of where the bytes are."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from upright.app.cli.output import Output, output_options, say
from upright.base.terminal.safe_output import mark_trusted

if TYPE_CHECKING:
    from upright.facts.records.model import Model
    from upright.models.reading import Traffic


@click.command()
@click.argument("source", metavar="MODEL")
@click.option("--layers", is_flag=True, help="Also show every layer.")
@output_options
def command(source: str, layers: bool, output: Output) -> None:
    """Read what a model is made of, from its headers.

    MODEL is a GGUF or safetensors file, a directory, a repository (owner/name, owner/name@revision), a quant of a GGUF
    repository (owner/name:IQ3_K), or a name of the catalogue. Weights are neither read nor downloaded.
    """
    from upright.app.pages.model_page import model_page
    from upright.models.reading import Traffic, read
    from upright.models.reading.contradictions import contradictions

    traffic = Traffic()
    model = read(source, traffic=traffic, progress=_show_progress if sys.stderr.isatty() else None)
    output.answer(model, lambda console: model_page(model, console, layers))
    _say_traffic(model, traffic)
    output.next("plan", source)
    if contradictions(model):
        output.no()


def _show_progress(done: int, of: int) -> None:
    click.echo(mark_trusted(f"\rread {done} of {of} headers"), nl=done == of, err=True)


def _say_traffic(model: Model, traffic: Traffic) -> None:
    from upright.base.units import format_size

    if traffic.requests:
        again = f", {traffic.retries} repeated" if traffic.retries else ""
        say(
            f"transferred {format_size(traffic.bytes_received)} in {traffic.requests} requests{again}, "
            f"to know {format_size(model.size_bytes)}"
        )
