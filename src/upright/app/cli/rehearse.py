"""`upright tools rehearse`."""

from __future__ import annotations

import click

from upright.app.cli.options import MEMORY, engine_option, goal_options, model_argument, port_option, typed_words
from upright.app.cli.output import Output, output_options, page_width, say


@click.command()
@model_argument
@goal_options
@port_option
@click.option(
    "--ram",
    "--host-memory",
    "host_memory",
    type=MEMORY,
    help="As if this machine had so much system RAM: 512GB.",
)
@engine_option
@output_options
def command(
    model: str,
    context: int | None,
    users: int,
    port: int,
    engine: str | None,
    host_memory: float | None,
    output: Output,
) -> None:
    """Start the engine on the real shapes before any weights are here.

    vLLM and SGLang start with dummy weights; llama.cpp's own allocator judges a file of holes with the real header, and
    the server is started on it where memory allows. Nothing but headers, configuration and tokenizer is fetched.
    """
    from upright.app.pages.deployment_pages import objections_page
    from upright.app.pages.rehearsal_page import page as rehearsal_page
    from upright.base.host import LocalHost
    from upright.facts.records.plan import Goal
    from upright.flows.line import rehearse_model
    from upright.planning.requests.plan_arguments import NamedBox, box_named

    goal = Goal(context_tokens=context, users=users, engine=engine)
    box = None if host_memory is None else box_named(NamedBox(memory_gib=host_memory))
    done = rehearse_model(model, goal, LocalHost(), port=port, tell=say, box=box)
    if done.rehearsal is None:
        output.answer(done.plan, lambda console: objections_page(console, done.plan))
        output.next("plan", model, *typed_words("context", "users", "engine", "host_memory"))
        output.no()
        return
    output.answer(done.rehearsal)
    output.show(rehearsal_page(done.rehearsal, page_width()))
    if done.rehearsal.passed:
        output.next("up", model, *typed_words("context", "users", "port"))
    elif done.rehearsal.code:
        output.next("explain", done.rehearsal.code)
    else:
        output.next("check", model)
    if not done.rehearsal.passed:
        output.no()
