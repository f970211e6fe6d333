"""`upright bench`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from upright.app.cli.options import ADDRESS, COUNTS, SECONDS, TOKENS, Number, deployment_argument, typed_words
from upright.app.cli.output import Output, output_options, say
from upright.base.errors import UsageError

if TYPE_CHECKING:
    from upright.facts.records.benchmark import Benchmark

_ASKED = (
    "base_url", "model", "key_file", "workload", "api", "concurrency", "prompt_tokens", "output_tokens", "requests",
    "rate", "trace", "repeats", "budget", "ttft", "tpot", "seed", "against",
)  # fmt: skip


@click.command()
@deployment_argument
@click.option("--workload", default="knee", show_default=True, help="Which load; --list names them all.")
@click.option("--list", "list_them", is_flag=True, help="List the workloads and stop.")
@click.option("--base-url", type=ADDRESS, help="An endpoint that upright did not start, such as http://10.0.0.7:8000.")
@click.option("--model", help="The name to ask it by; needed with --base-url.")
@click.option("--key-file", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="A file with its key.")
@click.option("--api", type=click.Choice(["chat", "completions", "messages"]), default="chat", show_default=True,
              help="Which API to speak: OpenAI's two, or Anthropic's messages.")  # fmt: skip
@click.option("--concurrency", type=COUNTS, help="Requests at once instead of the workload's, such as 1,4,16.")
@click.option("--prompt-tokens", type=TOKENS, help="Tokens of a prompt instead of the workload's.")
@click.option("--output-tokens", type=TOKENS, help="Tokens of an answer instead of the workload's.")
@click.option("--requests", type=click.IntRange(1), help="Requests a cell instead of the workload's.")
@click.option("--rate", type=Number(0, min_open=True), help="Requests a second at random times (Poisson).")
@click.option("--repeats", type=click.IntRange(1, 100), default=3, show_default=True, help="Times to measure a cell.")
@click.option("--budget", type=SECONDS, help="Time for all of the measuring, such as 10m.  [default: 15m]")
@click.option("--ttft", type=SECONDS, default="2s", show_default=True, help="The promise of goodput: first token.")
@click.option("--tpot", type=SECONDS, default="50ms", show_default=True, help="The promise of goodput: each token.")
@click.option("--trace", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="Replay this agent-trace instead of a generated one; for --workload agents.")  # fmt: skip
@click.option("--against", help="Measure another in turns with it: a running deployment, or a recipe's file.")
@click.option(
    "--with", "tool", metavar="TOOL",
    help="Let aiperf, guidellm or an engine's own tool make the load, and keep its figures.",
)  # fmt: skip
@click.option("--program", type=click.Path(path_type=Path, exists=True), help="Where that tool is, if not on the PATH.")
@click.option("--tokenizer", help="The tokenizer that tool makes prompts with; a path or a repository.")
@click.option("--import", "file", type=click.Path(path_type=Path), help="Read a result of such a tool, and stop.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of prompts and arrivals.")
@click.option("--fresh", is_flag=True, help="Begin anew, also if a run was cut off.")
@click.option("--no-self-test", is_flag=True, help="Do not test the generator first.")
@click.option("--csv", "csv_path", type=click.Path(path_type=Path, dir_okay=False), help="Write every cell as CSV.")
@output_options
def command(
    deployment: str | None, list_them: bool, base_url: str | None, model: str | None, key_file: Path | None,
    no_self_test: bool, csv_path: Path | None, against: str | None, tool: str | None, program: Path | None,
    tokenizer: str | None, file: Path | None, output: Output, **options: Any,
) -> None:  # fmt: skip
    """Measure what an endpoint carries, and say what really happened.

    Without a deployment's name the one that runs is measured. A run that was cut off goes on with the same command.
    """
    from upright.app.pages.bench_page import bench_progress_bar, workloads_page
    from upright.flows.line.bench_subjects import measured_subject, measured_subjects
    from upright.proof.benchmark.bench import bench
    from upright.proof.benchmark.sweep import sweep_request
    from upright.proof.benchmark.workload import workloads

    if list_them:
        output.answer([row.model_dump(mode="json") for row in workloads().values()], workloads_page)
        output.next("bench", "--workload", "knee")
        return
    if file is not None:
        from upright.proof.benchmark.drivers import read_result_file

        record = read_result_file(file)
        _answer(record, output, csv_path)
        output.next("report", str(output.path or "BENCHMARK.json"))
        return
    asked = sweep_request(**options)
    known, directory = measured_subject(deployment, base_url, model, key_file, options["api"], say)
    if tool is not None:
        from upright.proof.benchmark.external_tool import bench_with_tool

        if against is not None:
            raise UsageError(f"--against measures with our own generator, not with {tool}", hint="leave out --with")
        record = bench_with_tool(tool, known, asked, directory, str(program) if program else None, tokenizer, tell=say)
    else:
        with (
            bench_progress_bar(asked) as watch,
            measured_subjects(known, directory, against, options["api"]) as subjects,
        ):
            record = bench(subjects, asked, directory, watch, test=not no_self_test)
    _answer(record, output, csv_path)
    if record.unfinished:
        output.next("bench", *([deployment] if deployment else []), *typed_words(*_ASKED))
    else:
        output.next("report", *([known.deployment] if known.deployment else [str(directory.path / "benchmark.json")]))
    if not record.clean:
        output.no()


def _answer(record: Benchmark, output: Output, csv_path: Path | None) -> None:
    from upright.app.pages.bench_page import benchmark_page
    from upright.evidence.report.tables import cells_csv
    from upright.facts.store import write_inside

    if csv_path is not None:
        write_inside(csv_path, cells_csv([record]))
    output.answer(record, lambda console: benchmark_page(console, record))
