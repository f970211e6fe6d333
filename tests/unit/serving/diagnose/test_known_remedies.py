"""No remedy is what the recipe has already: every row of the catalogue, on recipes of every engine."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import TINY_FOLDER
from tests.drawn import drawn
from tests.golden.deployments import PUBLISHED, recipe
from upright.base.host import RecordedHost
from upright.facts import catalog
from upright.facts.catalog import versions
from upright.facts.catalog.rows.failure import FailureRow
from upright.facts.records.diagnosis import Diagnosis, Remedy, Sighting
from upright.facts.records.plan import Goal
from upright.facts.records.recipe import Recipe
from upright.models.reading import read
from upright.planning.choosing import plan
from upright.planning.probing import probe
from upright.planning.rendering import render
from upright.serving.diagnose import LogContext, apply_remedy, diagnose

ROWS = [
    row
    for row in catalog.failures()
    if row.seen != "none" and row.severity != "hang" and row.where not in ("words", "part")
]
AMX_BOX = Path(__file__).parents[3] / "recordings/boxes/synthetic-xeon-amx"
AMX_SAYS = (
    "AssertionError: AMXMLAImpl only supports an unquantized (bf16) KV cache; fp8 KV cache for CPU MLA is not yet "
    "implemented."
)
EDITS = ("set_flag", "unset_flag", "raise_flag", "lower_flag", "set_env", "unset_env", "use_image")


@cache
def on_amx() -> Recipe:
    box, model = probe(RecordedHost(AMX_BOX)), read(str(TINY_FOLDER))
    return render(plan(box, model, Goal(engine="vllm"))[0], model, box, model_path="/models/toy", port=8000)


@cache
def recipes() -> tuple[Recipe, ...]:
    return (*(recipe(name) for name in PUBLISHED), on_amx())


def of_row(row: FailureRow, start: Recipe) -> Diagnosis:
    """As if the engine of that recipe had printed the row's first line, or its machine said it."""
    assert row.seen != "none"
    seen = row.seen[0]
    if row.where == "frame":
        log, machine = f"{seen.line}\nOddError: moons\n", ()
    elif row.where == "log":
        log, machine = "\n".join(line for line in (seen.beside, seen.line) if line) + "\n", ()
    else:
        beside = f"{seen.beside}\n" if seen.beside else ""
        log, machine = beside, (Sighting(where=row.where, text=seen.line),)
    around = LogContext(engine=start.engine, failed=True, machine=machine, recipe=start)
    return diagnose(io.BytesIO(log.encode()), subject="log", around=around)


def changes_something(start: Recipe, remedy: Remedy) -> bool:
    """By the command, the variables and the image alone, whatever the code under test calls the same."""
    settings = {setting.name: setting.value for setting in start.arguments}
    variables = {setting.name: setting.value for setting in start.environment}
    match remedy.do:
        case "set_flag":
            return settings.get(remedy.name or "", "not there") != remedy.value
        case "unset_flag":
            rows = [row.flags for row in catalog.flags(start.engine) if remedy.name in row.flags]
            return any(name in settings for name in (remedy.name, *(flag for flags in rows for flag in flags)))
        case "set_env":
            return variables.get(remedy.name or "") != remedy.value
        case "unset_env":
            return remedy.name in variables
        case "use_image":
            return start.image != remedy.value
        case "use_engine":
            return start.engine != remedy.value
        case "use_version":
            return start.engine_version is None or not versions.in_range(
                start.engine_version.partition("+")[0], remedy.value or "*"
            )
        case _:
            return True


@pytest.mark.parametrize("row", drawn(ROWS, 100, [row.id for row in ROWS]))
def test_no_remedy_is_what_the_recipe_has(row: FailureRow):
    for start in recipes():
        if start.engine not in row.engines and "any" not in row.engines:
            continue
        found = of_row(row, start)
        offered = next(finding for finding in found.findings if finding.code == row.id).remedies
        for remedy in offered:
            assert changes_something(start, remedy), f"{row.id} on {start.engine}: {remedy}"
            changed = apply_remedy(start, remedy) if remedy.do in EDITS else None
            if changed is not None and (remedy.value is not None or remedy.do.startswith(("set_", "unset_"))):
                again = next(finding for finding in of_row(row, changed).findings if finding.code == row.id)
                assert remedy not in again.remedies, f"{row.id} on {start.engine}, once it was done: {remedy}"
        if not offered and any(remedy.engine in (None, start.engine) for remedy in row.remedies):
            assert any(row.id in note for note in found.notes), "why nothing is advised"


def test_a_row_that_is_exhausted_says_so():
    quiet = [(row.id, start) for row in ROWS for start in recipes() if start.engine in row.engines]
    exhausted = {name: of_row(row_named(name), start).notes for name, start in quiet}
    assert any(
        notes == (f"the recipe has every remedy that the catalogue knows for {name}",)
        for name, notes in exhausted.items()
    ), "no row is exhausted on any of these recipes"
    assert [remedy.value for remedy in of_row(row_named("vllm-cpu-fp8-cache"), on_amx()).findings[0].remedies] == [
        "bfloat16"
    ], "`auto` is in the recipe"


def row_named(name: str) -> FailureRow:
    return next(row for row in ROWS if row.id == name)


@pytest.mark.parametrize(
    ("cache_type", "code", "values"),
    [
        ("fp8", "vllm-cpu-fp8-cache", ["auto", "bfloat16"]),
        ("fp8_e4m3", "vllm-cpu-fp8-cache", ["auto", "bfloat16"]),
        ("bfloat16", "vllm-amx-cache-type-spelled-out", ["auto", "CPU_MLA"]),
        ("float16", "vllm-amx-cache-type-spelled-out", ["auto", "CPU_MLA"]),
    ],
)
def test_one_message_of_amx_two_causes(cache_type: str, code: str, values: list[str]):
    """The engine says how it was started, so a log that somebody sent tells them apart too."""
    lines = (
        "(APIServer pid=1) INFO 11-15 03:41:01 [utils.py:299]  █▄█▀ █     █     █     █  version 0.32.0",
        f"(EngineCore pid=2) INFO 11-15 03:41:09 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: "
        f"model='tiny-kimi', dtype=torch.bfloat16, kv_cache_dtype={cache_type}, device_config=cpu, seed=0",
        "(APIServer pid=1) INFO:     Application startup complete.",
        f"(Worker pid=3) ERROR 11-15 03:42:09 [multiproc_executor.py:1063] {AMX_SAYS}",
        "(EngineCore pid=2) ERROR 11-15 03:42:09 [core.py:1209] EngineCore encountered a fatal error.",
    )
    log = io.BytesIO(("\n".join(lines) + "\n").encode())
    found = diagnose(log, subject="log")
    assert found.code == code
    assert found.cause is not None
    assert [remedy.value for remedy in found.cause.remedies] == values
    assert {finding.code for finding in found.findings} & {
        "vllm-cpu-fp8-cache",
        "vllm-amx-cache-type-spelled-out",
    } == {code}


def test_the_recipe_as_it_was_is_mended_by_its_first_remedy():
    """bf16 spelled out on AMX, as recipes were: what `diagnose` advises is what a recipe for this box says today."""
    today = on_amx()
    arguments = tuple(
        setting.model_copy(update={"value": "bfloat16"}) if setting.name == "--kv-cache-dtype" else setting
        for setting in today.arguments
    )
    before = today.model_copy(update={"arguments": arguments})
    cause = of_row(row_named("vllm-amx-cache-type-spelled-out"), before).cause
    assert cause is not None
    mended = apply_remedy(before, cause.remedies[0])
    assert mended is not None
    assert mended.argv == today.argv


def test_a_cut_log_offers_both_causes():
    found = diagnose(io.BytesIO(f"{AMX_SAYS}\n".encode()), subject="log", around=LogContext(engine="vllm"))
    assert [finding.code for finding in found.findings] == ["vllm-cpu-fp8-cache", "vllm-amx-cache-type-spelled-out"]
    assert all(finding.when for finding in found.findings)
    assert {finding.remedies[0].value for finding in found.findings} == {"auto"}
