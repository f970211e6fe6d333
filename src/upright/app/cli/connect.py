"""`upright connect`."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from upright.app.cli.options import deployment_argument
from upright.app.cli.output import Output, say


@click.command()
@deployment_argument
@click.option(
    "--client",
    default="openai",
    show_default=True,
    help="openai, anthropic, claude-code, codex, opencode, aider, qwen-code, goose, llm, zed, cline, open-webui, curl.",
)
@click.option("--write", is_flag=True, help="Write them into the client's own file; what is in it stays.")
@click.option("--file", type=click.Path(path_type=Path, dir_okay=False), help="Write into this file instead.")
@click.option("--show-key", is_flag=True, help="Print the key itself, not where it is.")
@click.option("--json", "as_json", is_flag=True, help="Print the settings as JSON on stdout.")
def command(deployment: str | None, client: str, write: bool, file: Path | None, show_key: bool, as_json: bool) -> None:
    """Print the settings for a client.

    Of a deployment, or of a fleet by its name. They are tried on the running engine first, with that client's own
    first request: its endpoint, its tools, a prompt of its size. Exit 1 if the client will not work. The key stays in
    its file.
    """
    from upright.app.pages.client_page import trial_sentences
    from upright.base.errors import LaunchError
    from upright.facts import store
    from upright.facts.records.deployment import RUNNING
    from upright.flows.fleet.named_fleet import deployment_behind
    from upright.serving.connect import connect, known_client, try_settings, write_settings
    from upright.serving.connect.requirements import proved_checks
    from upright.serving.launch import status

    output = Output(as_json, None)
    client = known_client(client)
    directory = store.running_or_last(deployment_behind(deployment))
    state = status(directory)
    settings = connect(state, directory.key_file, client)
    if state.state not in RUNNING:
        raise LaunchError(f"{state.name} is {state.state}", hint="upright ps")
    trial = try_settings(settings, directory.key(), verdicts=proved_checks(directory))
    for sentence in trial_sentences(state.name, client, trial):
        say(sentence)
    shown = {**settings.model_dump(mode="json"), **trial.model_dump(mode="json")}
    text = settings.text
    if show_key:
        shown["key"] = directory.key()
        for placeholder in (f'"$(cat {shlex.quote(settings.key_file)})"', f"the content of {settings.key_file}"):
            text = text.replace(placeholder, directory.key())
    if write or file is not None:
        shown["file"] = str(write_settings(settings, file))
        text = f"wrote {shown['file']}\n"
    output.answer(shown, lambda console: console.out(text, end="", highlight=False))
    output.next("report", state.name)
    if not trial.works:
        output.no()
