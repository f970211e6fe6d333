"""`upright fleet`: several boxes behind one endpoint. Command `x` is `upright.app.cli.fleet_x:command`."""

from __future__ import annotations

from typing import ClassVar

import click

from upright.app.cli.lazy import LazyGroup


class _Fleet(LazyGroup):
    table: ClassVar[dict[str, str]] = {
        "plan": "Say what each box would run, and what a roll would change.",
        "size": "Say how many boxes so many people need.",
        "up": "Start the boxes, then the router, and prove that clients get through.",
        "status": "Show each box, as it is and as the router sees it.",
        "roll": "Make what runs what fleet.yaml says, step by step, while clients go on.",
        "down": "Stop the router and the boxes.",
        "render": "Write the router's own files, with a reason for every flag.",
    }
    module = "upright.app.cli.fleet_"


@click.group(cls=_Fleet)
def command() -> None:
    """Keep several boxes behind one endpoint: plan, start, watch, roll, end.

    One box needs none of this: its engine is the endpoint.

    \b
    A fleet.yaml (upright explain Fleet lists its other fields):
      record: fleet
      schema: 1
      name: kimi
      model: moonshotai/Kimi-K2.6
      goal: {context_tokens: 131072, users: 8}
      boxes:
        - {name: alpha, at: "ssh:alpha"}
        - {name: beta, at: "ssh:beta", address: 10.0.0.12}
      router: {at: here, port: 9000}
      client_key: env:KIMI_KEY
    """
