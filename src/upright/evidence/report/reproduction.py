"""Commands that reproduce a deployment, as far as its records know them."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from upright.facts.records.benchmark import AS_IT_IS, WITH_TOOL, Benchmark, Shape
from upright.facts.records.speculation import TRIAL
from upright.proof.benchmark.workload import Workload, workloads

if TYPE_CHECKING:
    from upright.evidence.report.subject import Subject


def reproduction_commands(subject: Subject) -> list[str]:
    plan, recipe, name = subject.plan, subject.recipe, subject.deployment.name
    up = ["up", recipe.model_path, "--context", str(recipe.context_tokens)]
    up += ["--users", str(plan.goal.users)] if plan.goal.users > 1 else []
    commands = [_command(*up, "--port", str(recipe.port))]
    if subject.evidence is not None:
        commands.append(_command("prove", name, "--to", subject.evidence.to_rung))
    commands += [bench_command(name, record) for record in subject.benchmarks if record.workload != TRIAL]
    if subject.speculation is not None:
        ways = [word for attempt in subject.speculation.tried for word in ("--speculate", attempt.way)]
        commands.append(_command("prove", name, "--to", "speculation", *ways))
    return [*commands, _command("report", name)]


def bench_command(deployment: str, record: Benchmark) -> str:
    """With every option that its cells tell of; what they do not tell stands behind it as a comment."""
    name, _, tool = record.workload.partition(WITH_TOOL)
    row = workloads().get(name)
    arguments = ["bench", deployment, "--workload", name, *(("--with", tool) if tool else ())]
    missing = [] if row else [f"{name} is no workload of this version"]
    if row is not None:
        arguments += _changes(row, [cell.shape for cell in record.cells] + [left.shape for left in record.skipped])
    apis = {cell.api for cell in record.cells} - {"chat"}
    arguments += [word for api in sorted(apis) for word in ("--api", api)]
    arguments += ["--repeats", str(record.repeats), *(("--seed", str(record.seed)) if record.seed else ())]
    if (first := record.subjects.get("a")) is not None:
        other = record.subjects.get("b", "")
        is_recipe = first.endswith(AS_IT_IS)
        arguments += ["--against", "RECIPE.yaml" if is_recipe else other]
        missing += [f"RECIPE.yaml: {other}"] if is_recipe else []
    if row is not None and row.trace and record.about != row.about:
        arguments += ["--trace", "TRACE.json"]
        missing.append(f"TRACE.json: {record.about}")
    if row is not None and row.search == "goodput":
        missing.append(f"the promise by --ttft and --tpot: {record.finding or 'not in the record'}")
    return _command(*arguments) + (f"  # {'; '.join(missing)}" if missing else "")


def _changes(row: Workload, shapes: list[Shape]) -> list[str]:
    """The options that make these shapes of a workload's own; a search goes through its list only as far as it must."""
    options: list[str] = []
    streams = sorted({shape.concurrency for shape in shapes})
    if streams and tuple(streams) != row.concurrency[: len(streams) if row.search else None]:
        options += ["--concurrency", ",".join(map(str, streams))]
    if row.trace:
        return options  # lengths and times are the trace's
    for option, seen, own in (
        ("--prompt-tokens", {shape.prompt_tokens for shape in shapes}, set(row.contexts or (row.prompt_tokens,))),
        ("--output-tokens", {shape.output_tokens for shape in shapes}, {row.output_tokens}),
    ):
        if len(seen) == 1 and not seen <= own:
            options += [option, str(*seen)]
    chosen = [shape for shape in shapes if shape.arrival == "closed" or row.search is None]
    requests = {shape.requests for shape in chosen}
    if len(requests) == 1 and any(shape.requests != shape.concurrency * row.requests_each for shape in chosen):
        options += ["--requests", str(*requests)]
    rates = {shape.requests_per_second for shape in shapes if shape.requests_per_second and row.search is None}
    return [*options, *(word for rate in sorted(rates) for word in ("--rate", f"{rate:g}"))]


def _command(*words: str) -> str:
    return shlex.join(["upright", *words])
