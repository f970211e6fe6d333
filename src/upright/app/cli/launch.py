"""`upright launch`."""

from __future__ import annotations

import sys
from typing import Any

import click

from upright.app.cli.launch_options import ask_before_fetching, engine_port, launch_options, launch_target_of
from upright.app.cli.options import typed_words
from upright.app.cli.output import Output, output_options, say


@click.command()
@click.argument("client")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- WORDS]...")
@click.option("--model", help="As for `up`.  [default: the first that recommend has for this machine]")
@launch_options
@click.option("--yes", is_flag=True, help="Download without asking.")
@click.option("--keep", is_flag=True, help="Leave the engine running when the client ends.")
@click.option("--write", is_flag=True, help="Write the settings into the client's own file too; wants --keep.")
@output_options
def command(client: str, words: tuple[str, ...], model: str | None, output: Output, **wanted: Any) -> None:
    """Get a model standing, and start your own agent on it.

    CLIENT is claude, codex, opencode, aider, qwen or goose, as it is installed here; what stands after -- goes to it.
    The model is recommended if you name none, fetched if you say yes, rehearsed, started, proved as far as tool calls,
    and tried with the client's own first request. The settings are those of the client's process: nothing is written.
    When the client ends, the engine is stopped.
    """
    from upright.app.cli.plan_options import goal_of
    from upright.app.pages.client_page import download_words, session_json, session_sentences
    from upright.app.pages.fetch_progress import fetch_progress_bar
    from upright.flows.line.agent import ClientOptions, launch_agent, recommended_model, refuse_early
    from upright.serving.connect.client_process import client_named
    from upright.serving.fetch import BackgroundFetch

    goal, wish = goal_of(wanted), ClientOptions(client_named(client), words, wanted["write"])
    refuse_early(wish, keep=wanted["keep"])
    source = model or recommended_model(goal, launch_target_of(wanted), tell=say)
    with fetch_progress_bar(source, alone=False) as on_progress:
        weights = BackgroundFetch(
            lambda need: ask_before_fetching(need, download_words(need), yes=wanted["yes"]), on_progress
        )
        session = launch_agent(
            source,
            goal,
            launch_target_of(wanted),
            wish,
            port=engine_port(wanted),
            keep=wanted["keep"],
            tell=say,
            weights=weights,
        )
    for sentence in session_sentences(session, wish.client):
        say(sentence)
    output.answer(session_json(session, wish.client))
    running = session.run.deployment
    output.next(*(("report", running.name) if running else ("plan", source, *typed_words("context", "users"))))
    if session.exit_code is None:
        output.no()
    elif session.exit_code:
        sys.exit(session.exit_code if session.exit_code > 0 else 128 - session.exit_code)
