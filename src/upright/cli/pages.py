"""Records -> what a person reads in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from upright import units
from upright.records.deployment import Deployment
from upright.records.plan import Plan
from upright.records.recipe import Recipe

if TYPE_CHECKING:
    from upright.line import Run
    from upright.store import Listed

_COLOURS = {
    "passed": "green", "ready": "green", "failed": "red", "degraded": "yellow", "hung": "red", "unsupported": "yellow",
}  # fmt: skip


def deployment_page(console: Console, deployment: Deployment) -> None:
    console.print(Text.assemble(f"{deployment.name} is ", _coloured(deployment.state)))
    facts = [
        ("endpoint", f"{deployment.base_url}/v1" if deployment.state == "ready" else None),
        ("model", deployment.served_name),
        ("engine", f"{deployment.engine} {deployment.engine_version or '(version unknown)'}"),
        ("context", f"{units.tokens(deployment.context_tokens)} tokens a user"),
        (
            "first answer",
            None if deployment.ready_seconds is None else f"after {deployment.ready_seconds} s (measured)",
        ),
        ("why", deployment.reason),
    ]
    _print_pairs(console, [(name, value) for name, value in facts if value is not None])


def ps_page(console: Console, listed: list[Listed]) -> None:
    if not listed:
        console.print("no deployments")
        return
    table = _table("name", "state", "engine", "endpoint", "why")
    for entry in listed:
        item = entry.deployment
        if item is None:
            table.add_row(entry.directory.name, Text("unreadable", style="red"), "", "", Text(entry.problem or ""))
            continue
        endpoint = item.base_url if item.state == "ready" else ""
        table.add_row(entry.directory.name, _coloured(item.state), item.engine, endpoint, item.reason or "")
    console.print(table)


def recipe_page(console: Console, recipe: Recipe) -> None:
    console.print(Text(f"{recipe.program}", overflow="fold"))
    table = _table("setting", "why")
    table.columns[0].overflow = "fold"
    table.columns[1].overflow = "fold"
    table.columns[0].max_width = 40
    for setting in (*recipe.environment, *recipe.arguments):
        source = f" [{setting.source}]" if setting.source else ""
        table.add_row(Text(" ".join(filter(None, (setting.name, setting.value)))), Text(setting.reason + source))
    console.print(table)


def objections_page(console: Console, plan: Plan) -> None:
    console.print(Text(f"{plan.engine}: no", style="red"))
    for objection in plan.objections:
        console.print(f"  {objection.message}", highlight=False)
        if objection.remedy:
            console.print(f"  what would help: {objection.remedy}", highlight=False)


def run_page(console: Console, run: Run) -> None:
    assert run.deployment is not None
    assert run.evidence is not None
    assert run.settings is not None
    plan = run.prepared.plan
    passed = sum(item.verdict == "passed" for item in run.evidence.observations)
    _print_pairs(
        console,
        [
            ("stands", "yes" if run.stands else "no"),
            ("model", f"{run.prepared.model.name}, {units.size(run.prepared.model.tensor_bytes)} (read)"),
            ("box", f"{run.prepared.box.name}: {run.prepared.box.cpu.name}"),
            ("context", f"{units.tokens(plan.context_tokens)} tokens for each of {plan.goal.users} user(s)"),
            ("room", f"{units.tokens(plan.kv.capacity_tokens)} tokens of cache would fit (derived)"),
            ("engine", f"{run.deployment.engine} {run.deployment.engine_version or ''}"),
            ("proof", f"{passed} of {len(run.evidence.observations)} checks passed, up to {run.evidence.to_rung}"),
            ("client", f"{run.settings.base_url}, model {run.settings.model}"),
            ("key", f"in {run.settings.key_file}"),
            ("state", run.deployment.state),
            ("report", str(run.page)),
        ],
    )


def _coloured(word: str) -> Text:
    return Text(word, style=_COLOURS.get(word, ""))


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in headings:
        table.add_column(heading)
    return table


def _print_pairs(console: Console, rows: list[tuple[str, str]]) -> None:
    """Names and values, a line each; a value is never folded, so that a path can be copied."""
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        console.print(Text.assemble((f"  {name:<{width}}  ", "dim"), value), soft_wrap=True)
