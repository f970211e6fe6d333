"""Pages of deployments, recipes and runs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from upright.base import units
from upright.base.terminal.wrapping import print_wrapped
from upright.base.untrusted_text import LONGEST_NAME, on_one_line
from upright.facts.records.deployment import RUNNING, Deployment
from upright.facts.records.evidence import Evidence
from upright.facts.records.plan import Plan
from upright.facts.records.recipe import Recipe

if TYPE_CHECKING:
    from upright.facts.store import ListedDeployment
    from upright.flows.line import LineRun

COLOURS = {
    "passed": "green", "ready": "green", "failed": "red", "degraded": "yellow", "hung": "red", "unsupported": "yellow",
}  # fmt: skip

_LONGEST_COMMAND = 16_000


def deployment_page(console: Console, deployment: Deployment) -> None:
    console.print(Text.assemble(f"{deployment.name} is ", coloured(deployment.state)))
    facts = [
        ("endpoint", f"{deployment.base_url}/v1" if deployment.state == "ready" else None),
        ("model", deployment.served_name),
        ("engine", f"{deployment.engine} {deployment.engine_version or '(version unknown)'}"),
        ("runs", _where(deployment)),
        ("context", f"{units.format_tokens(deployment.context_tokens)} tokens a user"),
        (
            "first answer",
            None if deployment.ready_seconds is None else f"after {deployment.ready_seconds} s (measured)",
        ),
        ("restarts", str(deployment.restarts) if deployment.restarts else None),
        ("why", deployment.reason),
    ]
    _print_pairs(console, [(name, fact) for name, fact in facts if fact is not None])


def ps_page(console: Console, listed: list[ListedDeployment]) -> None:
    if not listed:
        console.print("no deployments")
        return
    table = table_of("name", "state", "engine", "endpoint", "why")
    for entry in listed:
        deployment = entry.deployment
        if deployment is None:
            table.add_row(entry.directory.name, Text("unreadable", style="red"), "", "", Text(entry.problem or ""))
            continue
        endpoint = deployment.base_url if deployment.state == "ready" else ""
        inside = None if deployment.runtime == "process" else f"in {deployment.runtime}"
        engine = " ".join(
            filter(None, (deployment.engine, inside, f"on {deployment.machine}" if deployment.machine else None))
        )
        table.add_row(
            entry.directory.name, coloured(deployment.state), engine, endpoint, Text(state_reason(deployment))
        )
    for column in (table.columns[0], table.columns[1], table.columns[3]):  # what is copied is never cut
        column.min_width = max(len(str(cell)) for cell in column.cells)
    console.print(table)


def state_reason(deployment: Deployment) -> str:
    """The reason, or how far it has come."""
    if deployment.reason is None and deployment.progress is not None:
        from upright.app.pages.start_progress import start_progress_words

        return " ".join(filter(None, (deployment.progress.phase, start_progress_words(deployment.progress, None))))
    return deployment.reason or ""


def stopping_page(console: Console, deployment: Deployment) -> None:
    """What `down` would do."""
    if deployment.state not in RUNNING:
        console.print(f"{deployment.name} is {deployment.state}: there is nothing to stop")
        return
    what = f"container {deployment.container}" if deployment.container else f"{deployment.engine} and its workers"
    number = f" (process {deployment.process.pid})" if deployment.process else ""
    where = f" on {deployment.machine}" if deployment.machine else ""
    console.print(f"would stop {deployment.name}, now {deployment.state}: {what}{number}{where}", soft_wrap=True)


def recipe_page(console: Console, recipe: Recipe, command: Sequence[str] | None = None) -> None:
    """`command` is what starts it, where that is not the engine itself."""
    shown = shlex.join(command) if command else recipe.program
    console.print(Text(on_one_line(shown, _LONGEST_COMMAND), overflow="fold"))
    table = table_of("setting", "why")
    table.columns[0].overflow = "fold"
    table.columns[1].overflow = "fold"
    table.columns[0].max_width = 40
    for setting in (*recipe.environment, *recipe.arguments):
        source = f" [{setting.source}]" if setting.source else ""
        setting_text = " ".join(filter(None, (setting.name, setting.value)))
        table.add_row(Text(on_one_line(setting_text, LONGEST_NAME)), Text(setting.reason + source))
    console.print(Padding(table, (0, 0, 0, 2)))  # where a value is broken, no line begins with what it says


def objections_page(console: Console, plan: Plan) -> None:
    console.print(Text(f"{plan.engine}: no", style="red"))
    for objection in plan.objections:
        print_wrapped(console, on_one_line(objection.message, LONGEST_NAME), 2)
        if objection.remedy:
            print_wrapped(console, f"try {on_one_line(objection.remedy, LONGEST_NAME)}", 2)


def run_page(console: Console, run: LineRun) -> None:
    assert run.deployment is not None
    assert run.evidence is not None
    assert run.settings is not None
    plan = run.prepared.plan
    passed = sum(observation.verdict == "passed" for observation in run.evidence.observations)
    _print_pairs(
        console,
        [
            ("stands", _stands_words(run.evidence)),
            ("model", f"{run.prepared.model.name}, {units.format_size(run.prepared.model.tensor_bytes)} (read)"),
            ("box", f"{run.prepared.box.name}: {run.prepared.box.cpu.name}"),
            ("context", f"{units.format_tokens(plan.context_tokens)} tokens for each of {plan.goal.users} user(s)"),
            ("KV cache", f"{units.format_tokens(plan.kv.capacity_tokens)} tokens would fit (derived)"),
            ("engine", f"{run.deployment.engine} {run.deployment.engine_version or ''}".rstrip()),
            *_measured_rates(run.evidence),
            ("proof", f"{passed} of {len(run.evidence.observations)} checks passed, {_reached_words(run.evidence)}"),
            *_not_passed(run.evidence),
            *_client(run),
            ("state", run.deployment.state),
            ("report", str(run.page)),
        ],
    )


def run_json(run: LineRun) -> dict[str, Any]:
    """The same for a program."""
    assert run.deployment is not None
    assert run.evidence is not None
    return {
        "stands": run.stands,
        "deployment": run.deployment.to_dict(),
        "evidence": run.evidence.to_dict(),
        "page": str(run.page),
    }


def _stands_words(evidence: Evidence) -> str:
    if evidence.passed:
        return "yes" if evidence.able else "yes, but the model is weak"
    fault = evidence.fault
    return "no" if fault is None else f"no: {fault.rung} {fault.check} failed"


def _reached_words(evidence: Evidence) -> str:
    if evidence.reached is None:
        return "no rung held"
    return f"up to {evidence.reached}" + ("" if evidence.reached == evidence.to_rung else f" of {evidence.to_rung}")


def _measured_rates(evidence: Evidence) -> list[tuple[str, str]]:
    """Decode and prefill as the climb's own answers showed them."""
    pairs = []
    if rates := evidence.decode_rates():
        answers = "1 answer" if len(rates) == 1 else f"{len(rates)} answers"
        pairs.append(("decode", f"{median(rates):,.1f} tok/s (median of {answers}, measured)"))
    if prefill := evidence.longest_prefill():
        rate, length = prefill
        pairs.append(("prefill", f"{rate:,.0f} tok/s (a prompt of {units.format_tokens(length)} tokens, measured)"))
    return pairs


def _not_passed(evidence: Evidence) -> list[tuple[str, str]]:
    """Every check that was not passed, by name, with its reason."""
    return [
        (
            "",
            on_one_line(
                f"{observation.verdict}: {observation.rung} {observation.probe or observation.check}: "
                f"{observation.reason}",
                LONGEST_NAME,
            ),
        )
        for observation in evidence.observations
        if observation.verdict != "passed"
    ]


def _client(run: LineRun) -> list[tuple[str, str]]:
    """The address to connect to, if anything answers there."""
    if run.settings is None or run.deployment is None or run.deployment.state not in RUNNING:
        return []
    return [
        ("client", f"{run.settings.base_url}, model {run.settings.model}"),
        ("key", f"in {run.settings.key_file}"),
    ]


def _where(deployment: Deployment) -> str | None:
    """None for the plain case: a process, here."""
    parts = []
    if deployment.runtime != "process":
        named = f" as {deployment.container}" if deployment.state in RUNNING else ""
        parts.append(f"in {deployment.runtime}{named}")
    if deployment.machine:
        parts.append(f"on {deployment.machine}")
    return " ".join(parts) or None


def coloured(word: str) -> Text:
    return Text(word, style=COLOURS.get(word, ""))


def table_of(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in headings:
        table.add_column(heading)
    return table


def _print_pairs(console: Console, rows: list[tuple[str, str]]) -> None:
    """Names and values, a line each; a value is never folded, so that a path can be copied."""
    width = max(len(name) for name, _ in rows)
    for name, fact in rows:
        console.print(Text.assemble((f"  {name:<{width}}  ", "dim"), fact), soft_wrap=True)
