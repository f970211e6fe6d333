"""A bundle that somebody sent -> refused in one line, or its rows: what was measured, and constants for such a machine.

Verified as everybody verifies it. A bundle whose requests took the same microseconds as those of one that was admitted
is that one again, whoever signed it.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from upright.base.errors import RecordError, UprightError
from upright.evidence.share.opening import open_bundle
from upright.evidence.share.repeats import OpenedBundle, request_clocks
from upright.evidence.share.sending import FOLDER
from upright.evidence.share.verifying import Claim, read_claim
from upright.facts import catalog
from upright.facts.catalog.rows.speed import SpeedRow
from upright.facts.catalog.rows.words import MeasurementRow
from upright.facts.records.box import Box
from upright.facts.records.model import Model
from upright.facts.records.plan import Plan
from upright.planning.requests.calibration import BenchmarkedDeployment, calibrate_runs, runs_of_deployments
from upright.planning.speed.calibration import CellSample, cell_samples
from upright.planning.speed.fitting import predict
from upright.planning.speed.predict import speed_constants, speed_query
from upright.planning.speed.rows import machine_of
from upright.planning.speed.speed_band import rate_band

ROOT = Path(__file__).resolve().parents[2]
SENT = ROOT / FOLDER
"""Where a pull request puts a bundle, and where it stays."""
CATALOGUE = ROOT / "src/upright/facts/catalog"
TABLE = CATALOGUE / "measurements/admitted.csv"
_COLUMNS = tuple(name for name in MeasurementRow.model_fields if name not in ("owner", "file"))
_UNSPELLED = re.compile(r"[^a-z0-9.]+")


@dataclass(frozen=True)
class Admissible:
    """A bundle that holds, and was not here before."""

    path: Path
    opened: OpenedBundle
    claim: Claim

    @property
    def identity(self) -> str:
        return self.opened.verification.identity

    @property
    def group(self) -> str:
        return self.identity[:12]

    @property
    def of(self) -> tuple[Model, Plan, Box]:
        model, plan, box = self.claim.of(Model), self.claim.of(Plan), self.claim.of(Box)
        if model is None or plan is None or box is None:
            raise RecordError("it holds no model, no plan or no box")
        return model, plan, box

    @property
    def deployment(self) -> BenchmarkedDeployment:
        model, plan, box = self.of
        cells = [cell for benchmark in self.claim.benchmarks for cell in benchmark.cells]
        return BenchmarkedDeployment(self.group, cells, plan, model, box)


def admissible(path: Path, trusted: frozenset[str]) -> Admissible:
    """RecordError, with the reason in one line, of what is not."""
    opened = open_bundle(path, trusted=trusted)
    verification = opened.verification
    if verification.broken:
        raise RecordError(f"broken: {verification.broken[0].reason}")
    if verification.signed_by is None:
        raise RecordError("it is unsigned: nobody stands for it")
    if verification.level == "claimed":
        open_ = next((check.reason for check in verification.checks if check.outcome == "unknown"), "no samples")
        raise RecordError(f"it is a claim and no more: {open_}")
    bundle = Admissible(path, opened, read_claim(opened.statement))
    for known in admitted():
        if known.identity == bundle.identity:
            raise RecordError(f"it was admitted before, as {known.group}")
        if not request_clocks(known.opened).isdisjoint(request_clocks(opened)):
            raise RecordError(f"its samples are a copy of those of {known.group}")
    return bundle


def admitted() -> Iterator[Admissible]:
    """Those in the folder of which the table has rows: others were only sent."""
    known = {row.group for row in _rows_before()}
    for path in sorted(SENT.glob("*.bundle.json")):
        opened = open_bundle(path)
        if opened.verification.identity[:12] in known:
            yield Admissible(path, opened, read_claim(opened.statement))


def measured_rows(bundle: Admissible) -> tuple[MeasurementRow, ...]:
    """One a load: the median of its repeats, as a fit takes it."""
    model, plan, box = bundle.of
    _, samples, unused = cell_samples(bundle.deployment.cells, plan, model, box)
    if not samples:
        raise RecordError(f"none of its cells tells a rate: {unused[0] if unused else 'it has none'}")
    return tuple(_row(bundle, number, sample) for number, sample in enumerate(samples, 1))


def _row(bundle: Admissible, number: int, sample: CellSample) -> MeasurementRow:
    model, plan, box = bundle.of
    predicate, parallel = bundle.opened.statement.predicate, plan.parallel
    known = catalog.find_model(model.source) or catalog.find_model(model.name)
    gpu = box.gpus[0] if box.gpus else None
    bandwidth = box.memory_bandwidth_measured_bytes_per_second.value
    fabric = bool(box.links) and all(link.fabric for link in box.links)
    slot = gpu and gpu.pcie.generation_max.value
    ram = f", {box.memory_bytes.value / 2**30:.0f} GiB" if box.memory_bytes.value else ""
    in_memory = sum(len(place.layers) for place in plan.expert_places if place.device == "host")
    layers = len({line.layer for line in model.weights if line.group == "routed_experts"})
    return MeasurementRow(
        id=f"{bundle.group}-{number}",
        date=predicate.made_at[:10],
        model=known.id if known else model.name,
        artifact=model.source,
        quant=model.quantisation,
        engine=plan.engine,
        engine_version=predicate.engine.version or predicate.engine.image,
        gpu=(gpu.row or gpu.name) if gpu else "none",
        gpu_count=len(box.gpus),
        cpu=f"{machine_of(box.model_copy(update={'gpus': ()}))}{ram}",
        host_bandwidth=f"{bandwidth / 1e9:.1f} measured" if bandwidth else None,
        gpu_expert_layers=layers - in_memory if gpu and in_memory else None,
        interconnect="NVLink" if fabric else f"PCIe{slot}" if slot else None,
        parallelism=f"TP{parallel.tensor} DCP{parallel.decode_context}{f' EP{parallel.ranks}' * parallel.expert}",
        speculation="draft k=3" if plan.goal.draft else "none",
        acceptance=sample.acceptance if plan.goal.draft else None,
        kv_dtype=plan.kv.dtype,
        context_tokens=round(sample.context),
        concurrency=sample.batch,
        kind="decode",
        decode_tokens_per_second=round(sample.tokens_per_second, 2),
        group=bundle.group,
        notes="a shared bundle, every figure derived again from its requests",
        grade="A",
        sources=(f"bundle {bundle.identity}, signed by {bundle.opened.verification.signed_by}",),
    )


def table_with(rows: Sequence[MeasurementRow]) -> str:
    """The table of what was admitted, with these after what it has."""
    text = io.StringIO(newline="")
    lines = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
    lines.writeheader()
    for row in (*_rows_before(), *rows):
        told = {**row.model_dump(include=set(_COLUMNS), exclude_none=True), "sources": "; ".join(row.sources)}
        lines.writerow(told)
    return text.getvalue()


def _rows_before() -> tuple[MeasurementRow, ...]:
    from upright.facts.catalog.loader import rows_of_file

    found = rows_of_file("measurements", TABLE) if TABLE.exists() else ()
    return tuple(row for row in found if isinstance(row, MeasurementRow))


def constants_file(bundle: Admissible) -> Path:
    """One for a kind of machine and an engine."""
    _, plan, box = bundle.of
    name = _UNSPELLED.sub("-", f"{plan.engine} {machine_of(box)}".lower()).strip("-")
    return CATALOGUE / "speeds" / f"{name}.yaml"


def machine_constants(bundle: Admissible) -> SpeedRow | str:
    """Fitted on every bundle of such a machine and engine; why there are none, if a fit on them would mislead."""
    box = bundle.of[2]
    bundles = [*(known for known in admitted() if constants_file(known) == constants_file(bundle)), bundle]
    try:
        measured = runs_of_deployments(each.deployment for each in bundles)
        calibration, row = calibrate_runs(measured, [f"bundle {each.identity}" for each in bundles])
    except UprightError as error:
        return error.message
    if calibration.refusal:
        return calibration.refusal
    row = row.model_copy(update={"machine": machine_of(box)})
    if not _tells_more(row, measured.start, bundle):
        return "with the error between two machines of a kind, plans for it would have no narrower band"
    counted = f"{len(bundles)} shared bundle{'s' * (len(bundles) > 1)}"
    return row.model_copy(
        update={
            "id": constants_file(bundle).stem,
            "fits": (),
            "prompt_fits": (),
            "unseen": (),
            "why": f"fitted on {calibration.rows} loads of {counted}: {', '.join(calibration.fitted)}; the rest as in "
            f"speeds/{measured.start.id}",
        }
    )


def _tells_more(row: SpeedRow, general: SpeedRow, bundle: Admissible) -> bool:
    """Narrower than the constants of every such engine at each load, or these missed what was measured at one."""
    model, plan, box = bundle.of
    chosen = speed_constants(box, plan.engine, plan.engine_version, plan.parallel.ranks, plan.goal.image, model)
    sibling = chosen is not None and chosen.row.id == general.id and chosen.of_sibling
    narrower, missed = [], []
    for sample in cell_samples(bundle.deployment.cells, plan, model, box)[1]:
        wish = plan.goal.model_copy(update={"users": sample.batch})
        asked = plan.model_copy(update={"goal": wish, "context_tokens": int(sample.context)})
        load = speed_query(asked, model, box, None)
        own, others = rate_band(row, load), rate_band(general, load._replace(of_sibling=sibling))
        if own is None or not own.known:
            return False
        if others is None or not others.known:
            continue
        narrower.append(own.high / own.low < others.high / others.low)
        seen = sample.tokens_per_second / predict(sample, general.constants)
        missed.append(not others.low <= seen <= others.high)
    return all(narrower) or any(missed)
