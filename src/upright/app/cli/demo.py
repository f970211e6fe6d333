"""`upright demo`."""

from __future__ import annotations

import time
from dataclasses import asdict

import click

from upright.app.cli.output import Output, output_options, page_width, say
from upright.app.cli.run import answer_run


@click.command()
@output_options
def command(output: Output) -> None:
    """Try it all in half a minute, on a model of 4 MB and without a GPU.

    Finds an engine that loads GGUF files (llama-server), starts it on a model that comes with Upright, asks questions
    whose answers are judged by rules, and writes a report. The engine is stopped and its files are removed; the report
    stays. Nothing is downloaded: without an engine it says how to get one.
    """
    from upright.app.pages.engine_page import install_page
    from upright.base.errors import EngineError
    from upright.flows.line.demo import demonstrate

    began = time.monotonic()
    demonstration = demonstrate(tell=say)
    if demonstration.run is None:
        here, ways = demonstration.here, demonstration.ways
        told = {"stands": None, "here": here and asdict(here), "ways": [asdict(way) for way in ways]}
        output.answer(told)
        output.show(install_page([here] if here else ways, demonstration.box, page_width()))
        others = f"other ways: upright tools engine how {here.engine}; " if here else ""
        hint = f"type the commands above, then: upright demo; {others}plans need none: upright recommend"
        raise EngineError(f"{demonstration.missing} was not found on this machine", hint=hint)
    answer_run(demonstration.run, output)
    say(f"took {time.monotonic() - began:.0f} s; the engine is stopped, and only the report is left")
    output.next("recommend")
    if not demonstration.run.stands:
        output.no()
