"""What a report shows of records, as words and numbers; the same for HTML and Markdown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from upright.base import units
from upright.evidence.report.charts import Chart, Series, curves, heat, over_time
from upright.facts.records.benchmark import Benchmark
from upright.facts.records.evidence import Evidence, Observation
from upright.facts.records.model import Model
from upright.facts.records.plan import Plan
from upright.facts.records.recipe import Recipe, Setting
from upright.facts.records.speculation import TRIAL
from upright.proof.benchmark.comparison import Difference, compare, comparison_sentences, shape_words
from upright.proof.benchmark.rows import ShapeRow, rows


@dataclass(frozen=True)
class BarShare:
    """A named part of a whole, for a bar."""

    name: str
    bytes: int
    percent: float
    note: str = ""


@dataclass(frozen=True)
class TableLine:
    """A row of a benchmark's table."""

    cells: tuple[str, ...]
    marked: bool


@dataclass(frozen=True)
class Sweep:
    """A benchmark as a page shows it."""

    record: Benchmark
    headings: tuple[str, ...]
    lines: tuple[TableLine, ...]
    marks: tuple[str, ...]
    notes: tuple[str, ...]
    generator: str
    charts: list[Chart] = field(default_factory=list)

    @property
    def any_marked(self) -> bool:
        return any(line.marked for line in self.lines)


@dataclass(frozen=True)
class BenchComparison:
    """Two benchmarks beside each other."""

    names: dict[str, str]
    workload: str
    sentences: list[str]
    differences: list[Difference]
    charts: list[Chart]


def groups(model: Model) -> list[BarShare]:
    totals: dict[str, int] = defaultdict(int)
    dtypes: dict[str, set[str]] = defaultdict(set)
    for line in model.weights:
        totals[line.group] += line.bytes
        dtypes[line.group].add(line.dtype)
    whole = sum(totals.values()) or 1
    ordered = sorted(totals.items(), key=lambda entry: -entry[1])
    return [
        BarShare(name.replace("_", " "), count, 100 * count / whole, ", ".join(sorted(dtypes[name])))
        for name, count in ordered
    ]


def devices(plan: Plan) -> list[tuple[str, int, list[BarShare]]]:
    """(device, capacity, parts) in the plan's order."""
    return [
        (
            budget.device,
            budget.capacity_bytes,
            [
                BarShare(line.term, line.bytes, 100 * line.bytes / max(budget.capacity_bytes, 1))
                for line in plan.ledger
                if line.device == budget.device
            ],
        )
        for budget in plan.budgets
    ]


@dataclass(frozen=True)
class RungView:
    """A rung of the ladder with its checks."""

    name: str
    verdict: str
    passed: int
    total: int
    not_run: int
    """Checks that the machine could not make."""
    answers: list[dict[str, str]]
    asks: bool
    """Whether its checks are questions with answers; else what was seen is all there is."""
    charts: list[Chart] = field(default_factory=list)


def ladder(evidence: Evidence | None, *, draw: bool = False) -> list[RungView]:
    if evidence is None:
        return []
    names = list(dict.fromkeys(observation.rung for observation in evidence.observations))
    rungs = []
    for name in names:
        items = [observation for observation in evidence.observations if observation.rung == name]
        passed = sum(observation.verdict == "passed" for observation in items)
        asks = any(observation.request.get("messages") for observation in items)
        answers, charts = [_answer(observation) for observation in items], _over_time(items) if draw else []
        rungs.append(
            RungView(
                name, evidence.rung_verdict(name), passed, len(items), evidence.not_run(name), answers, asks, charts
            )
        )
    return rungs


_OVER_TIME = {
    "latency": ("Time of an answer, ms", 1000.0),
    "engine memory": ("Memory that the engine made, MiB", 1 / 1024**2),
}


def _over_time(items: list[Observation]) -> list[Chart]:
    """What a soak measured, block by block."""
    drawn = []
    for observation in items:
        if observation.check in _OVER_TIME and isinstance(seen := (observation.response or {}).get("over_time"), list):
            title, factor = _OVER_TIME[observation.check]
            drawn.append(over_time([(at, factor * level) for at, level in seen], "seconds of load", title))
    return [chart for chart in drawn if chart is not None]


def _answer(item: Observation) -> dict[str, str]:
    messages = item.request.get("messages") or [{}]
    choices = (item.response or {}).get("choices") or [{}]
    answer_text = str((choices[0].get("message") or {}).get("content") or "(nothing)")
    return {
        "check": item.check,
        "verdict": item.verdict,
        "reason": item.reason,
        "seconds": units.format_duration(item.seconds),
        "asked": _asked(messages[-1].get("content", "")),
        "answered": _short(answer_text if item.request.get("messages") else item.reason),
    }


def _asked(content: object) -> str:
    """A long prompt is kept by its digest and its end."""
    if isinstance(content, dict) and "characters" in content:
        return f"{content['characters']:,} characters that end with “{str(content.get('ends_with', ''))[-120:]}”"
    return _short(str(content))


def _short(text: str, limit: int = 300) -> str:
    return text if len(text) <= limit else f"{text[: limit - 40]} … {len(text) - limit + 40:,} characters more"


def sweep(record: Benchmark, *, draw: bool = True) -> Sweep:
    measured_rows = rows(record.cells)
    several = len({(row.shape.prompt_tokens, row.shape.output_tokens) for row in measured_rows}) > 1
    is_open = any(row.shape.arrival == "open" for row in measured_rows)
    before = (*(("recipe",) if record.subjects else ()), *(("in / out",) if several else ()))
    headings = (
        *before, "rate" if is_open else "at once", "output tok/s", "total tok/s", "peak tok/s", "mean TTFT",
        "mean TPOT", "p99 ITL", "failed",
    )  # fmt: skip
    charts: list[Chart] = []
    if draw:
        charts = heat(measured_rows) or curves(series(record))
    return Sweep(
        record=record,
        headings=headings,
        lines=tuple(TableLine(_cells(record, row, several, is_open), row.marked) for row in measured_rows),
        marks=tuple(f"{_name(record, row)}: {remark}" for row in measured_rows for remark in row.marks),
        notes=tuple(f"{_name(record, row)}: {remark}" for row in measured_rows for remark in row.notes),
        generator=generator_words(record),
        charts=charts,
    )


def series(record: Benchmark, name: str | None = None) -> list[Series]:
    measured_rows = rows(record.cells)
    if not record.subjects:
        return [Series(name or record.title, measured_rows)]
    return [
        Series(f"{letter}: {label}", [row for row in measured_rows if row.subject == letter])
        for letter, label in record.subjects.items()
    ]


def _cells(record: Benchmark, row: ShapeRow, several: bool, is_open: bool) -> tuple[str, ...]:
    shape = row.shape
    before = [row.subject] if record.subjects else []
    before += [f"{shape.prompt_tokens:,} / {shape.output_tokens:,}"] if several else []
    where = f"{shape.requests_per_second:g}/s" if is_open and shape.requests_per_second else f"{shape.concurrency:,}"
    failed = "" if record.source else f"{sum(cell.failed for cell in row.cells):,}"
    return (
        *before, where, number(row, "output"), number(row, "total", plain=True), number(row, "peak", plain=True),
        *(_time(row, name) for name in ("ttft", "tpot", "itl_p99")), failed,
    )  # fmt: skip


def number(row: ShapeRow, metric: str, *, plain: bool = False) -> str:
    estimate = row.mean(metric)
    if estimate is None:
        return "–"
    digits = 1 if estimate.value < 100 else 0
    half = "" if plain or estimate.high is None else f" ±{estimate.high - estimate.value:,.{digits}f}"
    return f"{estimate.value:,.{digits}f}{half}"


def _time(row: ShapeRow, metric: str) -> str:
    estimate = row.mean(metric)
    return "–" if estimate is None else milliseconds(estimate.value)


def milliseconds(seconds: float) -> str:
    """`12.3 ms`, `123 ms`, `1,234 ms`: one unit down a column."""
    elapsed_ms = 1000 * seconds
    return f"{elapsed_ms:,.{2 if elapsed_ms < 10 else 1 if elapsed_ms < 100 else 0}f} ms"


def _name(record: Benchmark, row: ShapeRow) -> str:
    return (f"{row.subject}, " if record.subjects else "") + shape_words(row.shape)


def generator_words(record: Benchmark) -> str:
    test = record.self_test
    if record.source:
        return "the figures of a publication, not measured here"
    if test is None:
        return "the generator was not tested on this machine"
    return (
        f"the generator's own error here, {test.concurrency:,} streams: TTFT {1000 * test.ttft_error_seconds:+.1f} ms,"
        f" ITL {test.itl_error_percent:+.2f} %, throughput {test.throughput_error_percent:+.2f} % ({test.loop})"
    )


def bench_comparisons(pairs: Sequence[tuple[str, Benchmark]]) -> list[BenchComparison]:
    """The first against each of the others, workload by workload; an A/B against itself."""
    compared = [
        _contest({"a": record.subjects["a"], "b": name}, record.workload, _of(record, "a"), _of(record, letter))
        for _, record in pairs
        if record.workload != TRIAL
        for letter, name in record.subjects.items()
        if letter != "a"
    ]
    plain = [(name, record) for name, record in pairs if not record.subjects]
    for position, (name, record) in enumerate(plain):
        for other_name, other in plain[position + 1 :]:
            if other.workload == record.workload and other.digest != record.digest:
                names = {"a": name, "b": other_name}
                compared.append(_contest(names, record.workload, rows(record.cells), rows(other.cells)))
    return compared


def _of(record: Benchmark, letter: str) -> list[ShapeRow]:
    return [row for row in rows(record.cells) if row.subject == letter]


def _contest(names: dict[str, str], workload: str, a: list[ShapeRow], b: list[ShapeRow]) -> BenchComparison:
    differences = compare(a, b)
    charts = curves([Series(names["a"], a), Series(names["b"], b)])
    return BenchComparison(names, workload, comparison_sentences(differences, names), differences, charts)


def differing(a: Recipe, b: Recipe) -> list[tuple[str, str, str]]:
    """(setting, value in a, value in b) for those that are not the same."""
    first, second = _settings(a), _settings(b)
    names = dict.fromkeys((*first, *second))
    return [
        (name, first.get(name, "not set"), second.get(name, "not set"))
        for name in names
        if first.get(name) != second.get(name)
    ]


def _settings(recipe: Recipe) -> dict[str, str]:
    setting_values: dict[str, list[str]] = defaultdict(list)
    settings: tuple[Setting, ...] = (*recipe.environment, *recipe.arguments)
    for setting in settings:
        setting_values[setting.name].append(setting.value if setting.value is not None else "set")
    joined = {name: " ".join(values) for name, values in setting_values.items()}
    return {"program": recipe.program, "engine": f"{recipe.engine} {recipe.engine_version or ''}".strip(), **joined}
