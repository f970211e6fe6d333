"""A family of models or GPUs -> what `upright plan` would print for its runs if nobody had measured the family.

Constants, bands and the cost of a step away are fitted on the runs of all other families and laid over the catalogue as
a person's own rows; then the command is asked as for any published run. One leniency: inside the bands' own fits the
router's skew stays as it was fitted without the family, since finding it takes thirteen fits each.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import yaml

from scripts.fitting import speeds
from scripts.fitting.served_loads import known_cells
from tests.accuracy.published_runs import Answered, ask, published
from upright.facts import catalog
from upright.facts.catalog import published_rates
from upright.facts.catalog.rows.speed import Constants, Errors, FittedRange, SpeedRow, TransferRow
from upright.facts.catalog.rows.words import MeasurementRow
from upright.planning.speed import sibling_runs
from upright.planning.speed.fitting import errors, fit, miss
from upright.planning.speed.published import FittedCell, gpu_of, load_of
from upright.planning.speed.published import cells as cells_of
from upright.planning.speed.spread import SpeedMiss, spread

STATED = Path(__file__).with_name("held_out_families_stated.csv")
MOST_RUNS = 40
GPU_FAMILIES = {"rtx-pro-6000": "RTX PRO 6000", "h100": "Hopper", "h200": "Hopper", "b200": "B200, B300",
                "b300": "B200, B300", "gb10": "DGX Spark"}  # fmt: skip
# What nobody else has measured stays unknown: it reaches beyond any band that would be printed.
UNMEASURED = Errors(median=1.0, ninth=1.0, low=0.1, high=10.0, rows=0, how="not measured without the family")
Belongs = Callable[[FittedCell], bool]


@dataclass(frozen=True)
class HeldOutFamily:
    """What is left out whole."""

    kind: str
    """model or GPU."""
    name: str

    def holds(self, row: MeasurementRow) -> bool:
        if self.kind == "GPU":
            return gpu_family(row) == self.name
        load = load_of(row)
        return load is not None and load.shape.partition(" ")[0] == self.name


def gpu_family(row: MeasurementRow) -> str | None:
    name = gpu_of(row) or ""
    return next((family for start, family in GPU_FAMILIES.items() if name.startswith(start)), None)


def families() -> tuple[HeldOutFamily, ...]:
    """Those among the runs that some row of constants was fitted on."""
    cells = [cell for row in _fitted_rows() for cell in _cells(row)]
    models = dict.fromkeys(HeldOutFamily("model", cell.load.shape.partition(" ")[0]) for cell in cells)
    gpus = dict.fromkeys(HeldOutFamily("GPU", name) for cell in cells if (name := gpu_family(cell.row)))
    return (*models, *gpus)


def runs_of(family: HeldOutFamily) -> tuple[MeasurementRow, ...]:
    """At most so many of its runs, spread evenly; of those that were gathered first, the fitted ones."""
    gathered = {row.id: row for row in published()}
    first = {cell.row.id: _named(cell.row) for row in _fitted_rows() for cell in _cells(row)}
    rows = [row for row in (gathered | first).values() if family.holds(row)]
    return tuple(rows[:: max(1, -(-len(rows) // MOST_RUNS))])


def answers(family: HeldOutFamily) -> tuple[Answered, ...]:
    rows = runs_of(family)
    with without(family):
        return tuple(ask(row) for row in rows)


@contextmanager
def without(family: HeldOutFamily) -> Iterator[None]:
    """Our rows as they would be without the family's runs."""
    before = os.environ.get("UPRIGHT_HOME")
    speeds, transfers = fitted_without(family)
    with tempfile.TemporaryDirectory() as folder:
        for kind, rows in (("speeds", speeds), ("transfers", transfers)):
            path = Path(folder) / "catalog" / kind / "held-out.yaml"
            path.parent.mkdir(parents=True)
            path.write_text(yaml.safe_dump([_plain(row) for row in rows]), encoding="utf-8")
        os.environ["UPRIGHT_HOME"] = folder
        try:
            with unpublished({row.id for row in catalog.measurements() if family.holds(row)}):
                yield
        finally:
            os.environ.pop("UPRIGHT_HOME")
            if before is not None:
                os.environ["UPRIGHT_HOME"] = before


@contextmanager
def unpublished(names: Collection[str]) -> Iterator[None]:
    """As if nobody had published these runs: a plan holds itself against those of its own setting."""
    known = [line for line in published_rates.lines() if line.values[line.columns.index("id")] not in names]
    sibling_runs.known_runs.cache_clear()
    try:
        with patch.object(published_rates, "lines", lambda: known):
            yield
    finally:
        sibling_runs.known_runs.cache_clear()


def fitted_without(family: HeldOutFamily) -> tuple[list[SpeedRow], list[TransferRow]]:
    """All rows of speeds, so that none is preferred as a person's own; transfers that were measured without it."""
    made, done = [], dict[tuple[str, ...], SpeedRow]()
    for row in catalog.rows("speeds").values():
        assert isinstance(row, SpeedRow)
        if row.fits and any(family.holds(cell.row) for cell in _cells(row)):
            like = done.get(row.fitted_on) or _refitted(row, family)
            done[row.fitted_on] = like
            row = row.model_copy(update={name: getattr(like, name) for name in _MEASURED})
        made.append(row)
    rest = {row.id: row for row in made}
    made = [row.model_copy(update={**_bands(row, rest, family), **_without_silicon(row, family)}) for row in made]
    steps = (_remeasured(transfer, rest, family) for transfer in speeds.TRANSFERS)
    return made, [step for step in steps if step is not None]


_MEASURED = ("constants", "home")


def _refitted(row: SpeedRow, family: HeldOutFamily) -> SpeedRow:
    steps, prompts = ([cell for cell in part if not family.holds(cell.row)] for part in _parts(row))
    constants = fit(steps, row.constants, row.fits) if steps else row.constants
    constants = fit(prompts, constants, row.prompt_fits) if prompts and row.prompt_fits else constants
    return row.model_copy(update={"constants": constants, "home": _home(row, steps)})


def _bands(row: SpeedRow, rows: dict[str, SpeedRow], family: HeldOutFamily) -> dict[str, Errors | None]:
    """Of a row that the family touches, or that borrows the spread of one."""
    if not row.fits:
        return {}
    known = {name: _home_errors(row, rows, family, name == "prompt_errors") for name in ("errors", "prompt_errors")}
    return {name: _nobody(row, name) if figures is None else figures for name, figures in known.items()}


def _without_silicon(row: SpeedRow, family: HeldOutFamily) -> dict[str, str]:
    """Nobody would have written a row all of whose runs are the family's: its GPUs are any other's siblings then."""
    alone = row.fits and all(family.holds(cell.row) for cell in _cells(row))
    return {"capability": "==left-out"} if alone else {}


def _nobody(row: SpeedRow, name: str) -> Errors | None:
    return None if getattr(row, name) is None else UNMEASURED


def _home_errors(row: SpeedRow, rows: dict[str, SpeedRow], family: HeldOutFamily, prompts: bool) -> Errors | None:
    misses = _home_misses(row, family, prompts)
    like = [part for other in speeds.of_kind(row) if (part := _home_misses(rows[other.id], family, prompts))]
    if len({missed.source for missed in misses}) + len(like) < 2:
        return None
    return errors(misses, "without the family", [spread(part) for part in like]) if misses else None


def _home_misses(row: SpeedRow, family: HeldOutFamily, prompts: bool) -> list[SpeedMiss]:
    """Each configuration left out in turn, and what others measured of other families at home."""
    kept = (row.fitted_on, row.fits, family, prompts)
    if kept not in _AT_HOME:
        _AT_HOME[kept] = _missed_at_home(row, family, prompts)
    return _AT_HOME[kept]


_AT_HOME: dict[tuple[object, ...], list[SpeedMiss]] = {}
"""Several rows are made of the same runs, and are asked for again and again."""


def _missed_at_home(row: SpeedRow, family: HeldOutFamily, prompts: bool) -> list[SpeedMiss]:
    cells = [cell for cell in _parts(row)[int(prompts)] if not family.holds(cell.row)]
    names = row.prompt_fits if prompts else row.fits
    held = _left_out(cells, row.constants, names, _part(cells))
    return held + [run.miss for run in _beside(row, family, prompts) if not run.steps]


def _beside(row: SpeedRow, family: HeldOutFamily, prompts: bool) -> list[speeds.RunBeside]:
    """Steps away are those of the whole row: what is further without the family counts as nearer than it is."""
    return [run for run in speeds.beside(row, prompts=prompts) if not family.holds(run.row)]


def _remeasured(transfer: speeds.Transfer, rows: dict[str, SpeedRow], family: HeldOutFamily) -> TransferRow | None:
    known = catalog.get("transfers", transfer.id)
    assert isinstance(known, TransferRow)
    if isinstance(transfer, speeds.ArchitectureTransfer):
        runs = (run for name in transfer.speeds for run in transfer.runs(rows[name]))
        across = [missed for run, missed in runs if not family.holds(run)]
        return known.model_copy(update={"errors": errors(across, transfer.how) if across else UNMEASURED})
    prompts = transfer.of == "prompt"
    far: list[SpeedMiss] = []
    near: list[SpeedMiss] = []
    for name in transfer.speeds:
        row = rows[name]
        cells = [cell for cell in _parts(row)[int(prompts)] if not family.holds(cell.row)]
        names = row.prompt_fits if prompts else row.fits
        near += _home_misses(row, family, prompts)
        far += [run.miss for run in _beside(row, family, prompts) if run.steps[-1:] == (transfer.step,)]
        if transfer.key is not None:
            far += _left_out(cells, row.constants, names, transfer.key)
        elif transfer.near is not None:
            both = [*cells, *(cell for cell in cells_of(transfer.beside) if not family.holds(cell.row))]
            far += _across(both, row.constants, names, transfer.near)
    if far and near:
        return known.model_copy(update={"beyond": speeds.beyond(far, near)})
    if not transfer.where:
        return known.model_copy(update={"beyond": UNMEASURED.high})
    # Nobody measured it on these rows alone: then what was measured on others holds, as in the catalogue.
    (wider,) = (
        other for other in speeds.TRANSFERS if (other.step, other.of, other.where) == (transfer.step, transfer.of, "")
    )
    general = _remeasured(wider, rows, family)
    return known.model_copy(update={"beyond": general.beyond if general else UNMEASURED.high})


def _left_out(
    cells: Sequence[FittedCell], constants: Constants, names: Sequence[str], key: Callable[[FittedCell], str]
) -> list[SpeedMiss]:
    """Errors of each group by a fit on the others; of a single group there are none."""
    groups = dict.fromkeys(key(cell) for cell in cells)
    misses: list[SpeedMiss] = []
    for group in groups if len(groups) > 1 else ():
        misses += _across(cells, constants, names, lambda cell, group=group: key(cell) != group)  # type: ignore[misc]
    return misses


def _across(cells: Sequence[FittedCell], constants: Constants, names: Sequence[str], near: Belongs) -> list[SpeedMiss]:
    known = [cell for cell in cells if near(cell)]
    if not known:
        return []
    fitted = fit(known, constants, [name for name in names if name != "expert_skew"])
    return [SpeedMiss(miss(cell, fitted), cell.source) for cell in cells if not near(cell)]


def _part(cells: Sequence[FittedCell]) -> Callable[[FittedCell], str]:
    """What is left out at home: each configuration, or each load of a single one."""
    alone = len({cell.group for cell in cells}) == 1
    return lambda cell: f"{cell.load.users} {cell.load.context_tokens}" if alone else cell.group


def _home(row: SpeedRow, cells: Sequence[FittedCell]) -> FittedRange | None:
    """Of a row without runs nothing is home, and no error is known."""
    if not cells or row.home is None:
        return row.home
    return FittedRange(
        shapes=tuple(sorted({cell.load.shape for cell in cells})),
        formats=tuple(sorted({cell.load.expert_format for cell in cells})),
        gpus=tuple(sorted({cell.load.gpu or "none" for cell in cells})),
        versions=row.home.versions,
        users=max(cell.load.users for cell in cells),
        context_tokens=max(cell.load.context_tokens for cell in cells),
    )


def _fitted_rows() -> list[SpeedRow]:
    return [row for row in catalog.rows("speeds").values() if isinstance(row, SpeedRow) and row.fits]


def _parts(row: SpeedRow) -> tuple[tuple[FittedCell, ...], tuple[FittedCell, ...]]:
    return known_cells(row.id), known_cells(row.id, prompts=True)


def _cells(row: SpeedRow) -> tuple[FittedCell, ...]:
    return (*_parts(row)[0], *_parts(row)[1]) if row.fits else ()


def _named(row: MeasurementRow) -> MeasurementRow:
    """A run of the first table, with the names that the command takes."""
    return row.model_copy(update={"gpu": gpu_of(row) or "none", "artifact": row.artifact or row.model})


def _plain(row: SpeedRow | TransferRow) -> dict[str, object]:
    plain: dict[str, object] = row.model_dump(mode="json", exclude={"owner", "file"}, exclude_none=True)
    return plain
