"""`upright report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from upright.cli.output import Output, say
from upright.errors import UsageError

if TYPE_CHECKING:
    from upright.records.benchmark import Benchmark
    from upright.reporting import Subject


@click.command()
@click.argument("what", metavar="[DEPLOYMENT | BENCHMARK.json]...", nargs=-1)
@click.option(
    "-o", "--output", "path", type=click.Path(path_type=Path, dir_okay=False),
    help="Where to write it.  [default: the deployment's directory, or here for several]",
)  # fmt: skip
@click.option("--markdown", "as_markdown", is_flag=True, help="Write Markdown instead of HTML.")
@click.option("--csv", "as_csv", is_flag=True, help="Write every cell of every benchmark as CSV instead.")
@click.option("--json", "as_json", is_flag=True, help="Print the page's path as JSON.")
def command(what: tuple[str, ...], path: Path | None, as_markdown: bool, as_csv: bool, as_json: bool) -> None:
    """Write the report: one page, self-contained.

    Of two or more it says which is better, where, by how much and how sure. A benchmark's own file may be named too.
    """
    from upright import store
    from upright.reporting import cells_csv, markdown, report

    if as_markdown and as_csv:
        raise UsageError("--markdown and --csv exclude each other", hint="write two reports")
    subjects = [_subject(name) for name in what] or [_subject(None)]
    ending = "md" if as_markdown else "csv" if as_csv else "html"
    if as_csv:
        benchmarks = [record for subject in subjects for record in _benchmarks(subject)]
        if not benchmarks:
            raise UsageError("there is no benchmark to write", hint="upright bench")
        text = cells_csv(benchmarks)
    else:
        text = markdown(*subjects) if as_markdown else report(*subjects)
    page = path.absolute() if path else _default_place(what, ending)
    store.write_atomically(page, text.encode())
    Output(as_json, None).answer({"page": str(page)}, lambda console: console.print(str(page), soft_wrap=True))
    say(f"next: open file://{page} in a browser" if ending == "html" else f"next: less {page}")


def _subject(name: str | None) -> Subject | Benchmark:
    from upright import store
    from upright.line import subject
    from upright.records.benchmark import Benchmark
    from upright.records.loading import load

    if name is not None and name.endswith((".json", ".yaml", ".yml")):
        return load(Path(name), Benchmark)
    return subject(store.find(name))


def _benchmarks(subject: Subject | Benchmark) -> tuple[Benchmark, ...]:
    from upright.reporting import Subject

    return subject.benchmarks if isinstance(subject, Subject) else (subject,)


def _default_place(what: tuple[str, ...], ending: str) -> Path:
    from upright import store

    if len(what) > 1 or (what and what[0].endswith((".json", ".yaml", ".yml"))):
        return Path.cwd() / f"report.{ending}"
    return store.find(what[0] if what else None).path / f"report.{ending}"
