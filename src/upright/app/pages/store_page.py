"""Deployments on the disk, and what is wrong with them -> the page that a person reads."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from upright.base.errors import UprightError

if TYPE_CHECKING:
    from rich.console import Console

    from upright.facts.store import DeploymentDir, ListedDeployment, StoreFinding


def list_page(console: Console, rows: list[dict[str, Any]]) -> None:
    from rich.table import Table
    from rich.text import Text

    from upright.base.units import format_size

    if not rows:
        console.print("no deployments")
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("name", "state", "created (UTC)"):
        table.add_column(name, overflow="fold")
    for name in ("entries", "size"):
        table.add_column(name, justify="right")
    for row in rows:
        created = (row["created_at"] or "")[:16].replace("T", " ")
        entries = "?" if row["entries"] is None else f"{row['entries']:,}"
        table.add_row(
            row["name"], row["state"] or Text("unreadable", "red"), created, entries, format_size(row["size_bytes"])
        )
    console.print(table)
    for row in rows:
        if row["problem"]:
            console.print(Text(f"{row['name']}: {row['problem']}", "red"))


def check_page(console: Console, found: dict[DeploymentDir, list[StoreFinding]]) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    if not found:
        console.print("no deployments")
    for directory, findings in found.items():
        problems = sum(finding.severity == "problem" for finding in findings)
        words = f"{problems} problem{'s' if problems > 1 else ''}" if problems else "sound"
        console.print(Text.assemble(directory.name, ": ", (words, "red" if problems else "green")))
        table = Table.grid(padding=(0, 1))
        for finding in findings:
            place = f"{finding.file} line {finding.line}" if finding.line is not None else finding.file
            mark = Text(finding.severity, "red" if finding.severity == "problem" else "yellow")
            table.add_row(mark, Text(f"{place}: {finding.message}"))
        if findings:
            console.print(Padding.indent(table, 2))


def listed_row(listed: ListedDeployment) -> dict[str, Any]:
    """A deployment on disk, for a program."""
    directory, problem = listed.directory, listed.problem
    try:
        last = directory.last()
    except UprightError as error:
        last, problem = None, problem or error.message
    return {
        "name": directory.name,
        "path": str(directory.path),
        "state": listed.deployment.state if listed.deployment else None,
        "created_at": listed.deployment.created_at if listed.deployment else None,
        "entries": last.seq if last else None if problem else 0,
        "size_bytes": sum(file.stat().st_size for file in directory.path.iterdir() if file.is_file()),
        "problem": problem,
    }


def checked_row(directory: DeploymentDir, findings: list[StoreFinding]) -> dict[str, Any]:
    """What is wrong with one, for a program."""
    return {
        "name": directory.name,
        "path": str(directory.path),
        "sound": all(finding.severity == "note" for finding in findings),
        "findings": [asdict(finding) for finding in findings],
    }
