"""What the catalogue's rows say of one engine version for a model on a box."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from upright.base.errors import UsageError
from upright.engines import ENGINES, engine_named
from upright.engines.advisories import EngineRun, OpenAdvisory, advisory_summary, open_advisories
from upright.engines.facets.releases import Releases
from upright.engines.gpu_settings import capability, dense_mla
from upright.facts import catalog
from upright.facts.catalog import versions
from upright.facts.catalog.model_records import row_of
from upright.facts.catalog.recorded_architectures import missing_architecture
from upright.facts.catalog.recorded_flags import recorded_versions
from upright.facts.catalog.rows.engine import CompatRow
from upright.facts.records.box import Box
from upright.facts.records.model import Model
from upright.facts.records.plan import Goal, Note, Objection, Plan
from upright.planning.choosing.goal_checks import sparse_mla
from upright.planning.speed.predict import image_patches

TOO_OLD = "engine-too-old"


def check_version(goal: Goal) -> None:
    """A version that the engine's makers never write is the caller's mistake, and so is one of no engine."""
    version = goal.engine_version
    if version is None:
        return
    if goal.engine is None:
        known = (name for name, engine in ENGINES.items() if engine.releases and is_version(engine.releases, version))
        likely = next(known, next(iter(ENGINES)))
        raise UsageError(
            "a version is an engine's, and no engine is named", hint=f"--engine {likely}, if {version} is its"
        )
    releases = engine_named(goal.engine).releases
    if releases is not None and not is_version(releases, version):
        newest = next(reversed(recorded_versions(goal.engine)), None)
        hint = f"written as in --engine-version {newest}" if newest else None
        raise UsageError(f"{version} is no version of {goal.engine}", hint=hint)


def is_version(releases: Releases, version: str) -> bool:
    """Whether the engine's makers write versions so."""
    return bool(re.fullmatch(releases.spelling, version)) and (not releases.ordered or _parsed(version) is not None)


def release_findings(plan: Plan, model: Model, box: Box) -> tuple[tuple[Objection, ...], tuple[Note, ...]]:
    """What stands against this release, and what is worth knowing of it.

    Rows speak of releases as their makers publish them: not of patched images, and not of builds between two of them.
    """
    version = plan.engine_version
    if version is None or image_patches(plan.goal.image) or "dev" in version or _parsed(version) is None:
        return (), ()
    case = _Case(plan, model, box, version)
    return tuple(_objections(case)), tuple(_notes(case))


def advisory_findings(plan: Plan) -> tuple[tuple[Objection, ...], tuple[Note, ...]]:
    """Published holes of this version, as far as a plan decides them; flags and addresses are a recipe's."""
    known = open_advisories(EngineRun(plan.engine, plan.engine_version, nodes=plan.parallel.nodes))
    refused = [hole for hole in known if hole.refused]
    others = [hole for hole in known if not hole.refused]
    release = f"{plan.engine} {plan.engine_version} has published holes"
    against = [Objection(code=TOO_OLD, message=f"{release}: {advisory_summary(refused)}", remedy=_closing(refused))]
    notes = [Note(code="advisory", message=f"{release}: {advisory_summary(others)}", remedy=_closing(others))]
    return tuple(against) if refused else (), tuple(notes) if others else ()


def _closing(known: Sequence[OpenAdvisory]) -> str | None:
    """The version that closes most of them, or what else to do about the first."""
    newer = [hole.affected.mended_in for hole in known if hole.affected.mended_in]
    if newer:
        return f"--engine-version {max(newer, key=versions.parse)}"
    return next((hole.instead for hole in known), None)


def oldest_usable_version(plan: Plan) -> str | None:
    """The oldest version that no row of the catalogue objects to; None if the version is not what is in the way."""
    remedies = [each.remedy for each in plan.objections if each.code == TOO_OLD and each.remedy]
    return max((each.split()[-1] for each in remedies), key=versions.parse, default=None)


class _Case(NamedTuple):
    plan: Plan
    model: Model
    box: Box
    version: str

    @property
    def release(self) -> str:
        return f"{self.plan.engine} {self.version}"


def _objections(case: _Case) -> Iterator[Objection]:
    row = row_of(case.model)
    runs = row.engines.get(case.plan.engine) if row else None
    oldest = versions.bound(runs, ">=") if runs else None
    if row is not None and oldest is not None and versions.parse(case.version) < versions.parse(oldest):
        message = f"{row.name} needs {case.plan.engine} {oldest} or newer, not {case.version} (models/{row.id})"
        yield Objection(code=TOO_OLD, message=message, remedy=f"--engine-version {oldest}")
    elif lacked := missing_architecture(case.plan.engine, case.version, case.model.architecture.name):
        yield Objection(code=TOO_OLD, message=lacked.sentence, remedy=f"--engine-version {lacked.since}")
    for trouble in _against(case):
        newer = versions.bound(trouble.versions, "<")
        if trouble.backend is None:
            remedy = f"--engine-version {newer}" if newer else trouble.instead
            yield Objection(code=TOO_OLD, message=_words(case, trouble), remedy=remedy)


def _notes(case: _Case) -> Iterator[Note]:
    for trouble in _against(case):
        if trouble.backend is not None:
            yield Note(
                code="known-trouble", message=_words(case, trouble), remedy=(trouble.instead or "").rstrip(".") or None
            )
    releases = engine_named(case.plan.engine).releases
    newest = next(reversed(recorded_versions(case.plan.engine)), None)
    if releases and releases.ordered and newest and versions.parse(case.version) > versions.parse(newest):
        message = f"{case.release} is newer than all that the catalogue knows: planned as {newest}"
        yield Note(code="unknown-release", message=message)


def _against(case: _Case) -> Iterator[CompatRow]:
    """Rows that say no to what this model cannot do without, and to the backend that it gets here."""
    engine, on = case.plan.engine, capability(case.box)
    if on is None:
        return
    needed = set(_needed(case))
    backends = {row.backend for row in catalog.compat(engine, None, on, patched=False) if row.feature == "dense MLA"}
    for row in catalog.compat(engine, case.version, on, patched=False):
        saying_no = row.status in ("refused", "fails")
        if saying_no and row.feature in needed and (row.backend is None or row.backend in backends):
            yield row


def _needed(case: _Case) -> Iterator[str]:
    """Features, as the rows of the catalogue name them."""
    if sparse_mla(case.model):
        yield "sparse MLA"
    if dense_mla(case.model):
        yield from ("MLA prefill", "very large caches with MLA")
        if case.plan.kv.dtype.startswith("fp8"):
            yield "fp8 KV with dense MLA, right answers"


def _words(case: _Case, row: CompatRow) -> str:
    where = f"{case.release} on SM {capability(case.box)}"
    return f"{where}, {row.feature}: {row.about.rstrip('.')} (compat/{row.id})"


def _parsed(version: str) -> versions.Version | None:
    try:
        return versions.parse(version)
    except ValueError:
        return None
