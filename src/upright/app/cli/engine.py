"""engine: which engines are at hand, and how to get one. Nothing is downloaded here."""

from __future__ import annotations

from dataclasses import asdict

import click

from upright.app.cli.options import ENGINE, typed_words
from upright.app.cli.output import Output, output_options, page_width

_BOX = "As for `plan`.  [default: this machine]"


@click.group(name="engine")
def command() -> None:
    """Say which engines are at hand, and how to get one."""


@command.command(name="list")
@click.option("--box", help=_BOX)
@output_options
def listed(output: Output, box: str | None) -> None:
    """List engines: installed, running, in images.

    And what can start containers.
    """
    from upright.app.pages.engine_page import EnginesOnBox, engines_json, engines_page
    from upright.planning.probing.lookup import host_of
    from upright.planning.probing.running_engines import running_and_images
    from upright.planning.requests.plan_arguments import NamedBox, box_named

    machine, host = box_named(NamedBox(box)), host_of(box)
    at_hand = EnginesOnBox(*running_and_images(host, machine)) if host else EnginesOnBox()
    output.answer(engines_json(machine, at_hand))
    output.show(engines_page(machine, page_width(), at_hand))
    output.next("engine", "how", *typed_words("box"))


@command.command(name="how")
@click.argument("engine", type=ENGINE, required=False)
@click.option("--box", help=_BOX)
@output_options
def how(output: Output, engine: str | None, box: str | None) -> None:
    """Print the commands that get an engine for this box."""
    from upright.app.pages.engine_page import install_page
    from upright.planning.requests.engine_installs import install_methods
    from upright.planning.requests.plan_arguments import NamedBox, box_named

    machine = box_named(NamedBox(box))
    ways = install_methods(engine, machine)
    output.answer({"box": machine.name, "ways": [asdict(way) for way in ways]})
    output.show(install_page(ways, machine, page_width()))
    output.next("recommend", *typed_words("box"))
