"""`upright tools record`."""

from __future__ import annotations

import click

from upright.app.cli.options import ADDRESS, SECONDS, deployment_argument
from upright.app.cli.output import Output, output_options, say
from upright.base.errors import UsageError


@click.command()
@deployment_argument
@click.option("--base-url", type=ADDRESS, help="An endpoint that upright did not start, such as http://10.0.0.7:8000.")
@click.option("--port", type=click.IntRange(1, 65535), help="Port on loopback.  [default: any that is free]")
@click.option("--for", "seconds", type=SECONDS, help="Stop after so long, such as 1h.  [default: at Ctrl-C]")
@output_options
def command(
    deployment: str | None, base_url: str | None, port: int | None, seconds: float | None, output: Output
) -> None:
    """Record your own agent's session as a trace: lengths, times and shared prefixes, never text.

    A proxy on loopback stands between your client and the endpoint until Ctrl-C, and then writes an agent-trace for
    `bench --workload agents --trace`. Messages are hashed with a key that is thrown away, and compared by that alone.
    Where a prompt departs from an earlier one, so that the engine reads it again, the first such character is told.
    """
    from upright.app.pages.trace_page import trace_page
    from upright.proof.benchmark.recording_proxy import record_trace

    if deployment is not None and base_url is not None:
        raise UsageError(f"either the deployment {deployment} or --base-url, not both", hint="leave one out")
    address = base_url or _address(deployment)
    outcome = record_trace(address, port or 0, seconds, say)
    if outcome is None:
        say("nothing was recorded: no request was answered through this port")
        output.next("connect", *([deployment] if deployment else []))
        output.no()
        return
    output.answer(outcome, lambda console: trace_page(console, outcome))
    which = ["--base-url", base_url, "--model", "NAME"] if base_url else [deployment] if deployment else []
    output.next("bench", *which, "--workload", "agents", "--trace", str(output.path or "TRACE.json"))


def _address(deployment: str | None) -> str:
    from upright.facts import store
    from upright.facts.records.deployment import RUNNING
    from upright.serving.launch import status

    running = status(store.running_or_last(deployment))
    if running.state not in RUNNING:
        raise UsageError(f"{running.name} is {running.state}", hint=f"upright up, or upright restart {running.name}")
    return running.base_url
