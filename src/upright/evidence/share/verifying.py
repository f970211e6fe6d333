"""Verifies a Statement: everything that it claims is derived again.

Nothing in it is executed, fetched or believed: records are read by their own strict readers, figures follow from
samples, and the rest is arithmetic.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from upright import __version__
from upright.base.errors import RecordError, UprightError
from upright.base.untrusted_text import on_one_line
from upright.engines import ENGINES, engine_named
from upright.evidence.bundle.redacting import KnownIdentities, Redactor
from upright.evidence.share import anonymous, clocks, physics
from upright.evidence.share.checks import Check, CheckMaker, Level, Verification
from upright.evidence.share.rederiving import derived_figures, headlines_of, ladder_of
from upright.evidence.share.statement import Statement
from upright.facts.catalog.recorded_flags import recorded_flags, recorded_versions
from upright.facts.records.base import Record, from_dict
from upright.facts.records.benchmark import Benchmark, Cell, Samples
from upright.facts.records.box import Box
from upright.facts.records.evidence import Evidence
from upright.facts.records.model import Model
from upright.facts.records.plan import Plan
from upright.facts.records.recipe import Recipe
from upright.facts.records.residuals import Residuals
from upright.proof.benchmark.cell_marks import RULES_SINCE, marks

_DIGEST, _CHAIN, _SUMMARY, _REDACTION = (CheckMaker(code) for code in ("digest", "chain", "summary", "redaction"))
_SAMPLES, _HEADLINE, _LADDER, _MARKS, _STALE = (
    CheckMaker(code) for code in ("samples", "headline", "ladder", "marks", "stale")
)
_NEEDED = ("samples", "headline", "marks", "summary", "box")
"""Where one of these could not be judged, nothing more than a claim is left."""
_LONGEST_TEXT = 4 << 10
"""Of any name or text in a bundle: the longest that we write has some hundreds of characters."""
R = TypeVar("R", bound=Record)
_KINDS: dict[str, type[Record]] = {
    "box": Box, "model": Model, "plan": Plan, "recipe": Recipe, "residuals": Residuals, "evidence": Evidence,
}  # fmt: skip


@dataclass(frozen=True)
class Claim:
    """The records of a statement, each read by its own reader."""

    records: dict[type[Record], Record]
    benchmarks: tuple[Benchmark, ...]
    digests: dict[type[Record], str]
    """As they were sealed: a record of an older schema has another one when it is brought up."""

    def references(self, *kinds: type[Record]) -> tuple[str, ...]:
        return tuple(f"{kind.kind}:{self.digests[kind]}" for kind in kinds if kind in self.digests)

    def of(self, kind: type[R]) -> R | None:
        record = self.records.get(kind)
        return record if isinstance(record, kind) else None


def verify(
    statement: Statement, identity: str, *, signed_by: str | None = None, more: Sequence[Check] = ()
) -> Verification:
    """`more` is what was found outside of it: its signature."""
    checks = [*more]
    try:
        claim = read_claim(statement)
        checks += [*_checks(statement, claim)]
    except UprightError as error:
        checks.append(_DIGEST.broken(error.message))
    except (ArithmeticError, LookupError, ValueError, TypeError, RecursionError) as error:
        checks.append(CheckMaker("format").broken(f"its records cannot be held together: {type(error).__name__}"))
    predicate = statement.predicate
    engine = f"{predicate.engine.name} {predicate.engine.version or '(version unknown)'}"
    return Verification(
        identity=identity, level=_level(statement, checks), signed_by=signed_by, model=predicate.model.name,
        engine=engine, box=predicate.box.kind, checks=tuple(checks),
    )  # fmt: skip


def read_claim(statement: Statement) -> Claim:
    """RecordError if a record was changed after it was sealed, or is none of those that a bundle has."""
    records: dict[type[Record], Record] = {}
    for name, content in statement.predicate.records.items():
        if name not in _KINDS:
            raise RecordError(f"a bundle holds no record of the kind {on_one_line(name, 40)}")
        if "digest" not in content:
            raise RecordError(f"its {name} has no digest")
        records[_KINDS[name]] = from_dict(_KINDS[name], content, where=f"its {name}")
    benchmarks = []
    for content in statement.predicate.benchmarks:
        if "digest" not in content:
            raise RecordError("its benchmark has no digest")
        benchmarks.append(from_dict(Benchmark, content, where="its benchmark"))
    digests = {_KINDS[name]: str(content["digest"]) for name, content in statement.predicate.records.items()}
    return Claim(records, tuple(benchmarks), digests)


def _checks(statement: Statement, claim: Claim) -> Iterator[Check]:
    predicate = statement.predicate
    yield from _chain(statement, claim)
    yield from _redaction(statement, claim)
    yield from _summary(statement, claim)
    yield from _derived(statement, claim)
    recipe, plan, model, box = claim.of(Recipe), claim.of(Plan), claim.of(Model), claim.of(Box)
    residuals, log = claim.of(Residuals), "\n".join(predicate.log)
    yield from clocks.clocks(claim.benchmarks)
    if claim.benchmarks:
        yield from clocks.counters(claim.benchmarks)
        timed = engine_named(predicate.engine.name).log.timings(log) if predicate.engine.name in ENGINES else ()
        yield from clocks.engine_clock(claim.benchmarks, timed)
    if recipe is not None:
        yield from physics.flags(recipe)
        yield from _stale(recipe)
    if box is not None:
        yield from physics.hardware(box)
    if recipe and plan and model and box:
        yield from physics.bandwidth(box, model, recipe, claim.benchmarks)
        yield from physics.pools(box, model, plan, residuals)
        yield from physics.logged(model, plan, recipe, residuals, log)


def _chain(statement: Statement, claim: Claim) -> Iterator[Check]:
    subject = [stated.digest.get("sha256") for stated in statement.subject]
    digest = claim.digests.get(Recipe)
    if digest is None or subject != [digest]:
        yield _CHAIN.broken("its subject is not the recipe that it holds")
        return
    parents: list[tuple[Record | None, tuple[type[Record], ...]]] = [
        (claim.of(Plan), (Model, Box)), (claim.of(Residuals), (Plan,)), (claim.of(Evidence), (Recipe,)),
        *((benchmark, (Recipe,)) for benchmark in claim.benchmarks),
    ]  # fmt: skip
    for child, wanted in parents:
        if child is not None and child.made_from != claim.references(*wanted):
            yield _CHAIN.broken(f"its {child.kind} was not made from the records beside it")
            return
    evidence = claim.of(Evidence)
    foreign = {cell.recipe for benchmark in claim.benchmarks for cell in benchmark.cells} - {digest}
    if foreign or any(seen.subject != f"recipe:{digest}" for seen in (evidence.observations if evidence else ())):
        yield _CHAIN.broken("it holds evidence of another recipe")
        return
    yield _CHAIN.holds(f"{len(claim.records) + len(claim.benchmarks)} records, each with its digest and its parents")


def _redaction(statement: Statement, claim: Claim) -> Iterator[Check]:
    """What redaction takes out must not be there: by its shape anywhere, and by field in every record."""
    redactor, texts = Redactor(KnownIdentities()), set(_texts(statement.model_dump(mode="json")))
    if any(len(text) > _LONGEST_TEXT for text in texts):
        yield _REDACTION.broken(f"it holds a text of more than {_LONGEST_TEXT:,} characters, which no record has")
        return
    if any(redactor.text(text) != text for text in texts):
        yield _REDACTION.broken(f"it holds {', '.join(sorted(redactor.times))}")
        return
    if (kind := _unshared(claim)) is not None:
        yield _REDACTION.broken(f"its {kind} holds paths, names, questions or answers")
        return
    yield _REDACTION.holds("no keys, names, paths, addresses, questions or answers")


def _texts(tree: Any) -> Iterator[str]:
    """Names and values alike; depth was bounded when it was read."""
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, dict):
        for name, branch in tree.items():
            yield name
            yield from _texts(branch)
    elif isinstance(tree, list | tuple):
        for branch in tree:
            yield from _texts(branch)


def _unshared(claim: Claim) -> str | None:
    """Which record would be changed by sharing it again."""
    recipe, box, model, evidence = claim.of(Recipe), claim.of(Box), claim.of(Model), claim.of(Evidence)
    if recipe is None or anonymous.shared_recipe(recipe) != recipe:
        return "recipe"
    if box is not None and anonymous.shared_box(box) != box:
        return "box"
    if model is not None and anonymous.shared_model(model) != model:
        return "model"
    name, digest = recipe.served_name, claim.digests[Recipe]
    if evidence and anonymous.shared_evidence(evidence, name, digest, was=digest) != evidence:
        return "evidence"
    for benchmark in claim.benchmarks:
        if anonymous.shared_benchmark(benchmark, name, digest, was=digest) != benchmark:
            return "benchmark"
    return None


def _summary(statement: Statement, claim: Claim) -> Iterator[Check]:
    """The words at the top must be those of the records below, and all of these must be there."""
    pairs = [*_engine_pairs(statement, claim), *_model_pairs(statement, claim), *_box_pairs(statement, claim)]
    wrong = list(dict.fromkeys(name for name, told, kept in pairs if told != kept))
    missing = [kind.kind for kind in (Box, Model, Plan, Recipe) if kind not in claim.records]
    if wrong:
        yield _SUMMARY.broken(f"its {', '.join(wrong)} is not what its records say")
    elif missing:
        yield _SUMMARY.unknown(f"it holds no {', no '.join(missing)}: physics cannot be held against it")
    else:
        yield _SUMMARY.holds("model, engine and box are those of its records")


def _engine_pairs(statement: Statement, claim: Claim) -> Iterator[tuple[str, object, object]]:
    engine, recipe, plan = statement.predicate.engine, claim.of(Recipe), claim.of(Plan)
    if recipe is None:
        return
    told = (engine.name, engine.version, engine.commit, engine.image)
    yield "engine", told, (recipe.engine, recipe.engine_version, recipe.engine_commit, recipe.image)
    for benchmark in claim.benchmarks:
        yield "engine", benchmark.engine, recipe.engine
    if plan is not None:
        yield "engine", plan.engine, recipe.engine


def _model_pairs(statement: Statement, claim: Claim) -> Iterator[tuple[str, object, object]]:
    told, model = statement.predicate.model, claim.of(Model)
    if model is None:
        return
    shards = [(shard.name, shard.size_bytes) for shard in told.shards]
    yield "model", told.name, model.name
    yield "repository", told.repository, model.source if model.revision else None
    yield "revision", told.revision, model.revision
    yield "shards", shards, [(file.name, file.size_bytes) for file in model.files]


def _box_pairs(statement: Statement, claim: Claim) -> Iterator[tuple[str, object, object]]:
    told, box = statement.predicate.box, claim.of(Box)
    if box is None:
        return
    yield "box", (told.kind, told.gpus), (anonymous.box_kind(box), len(box.gpus))
    yield "GPU", told.gpu, anonymous.gpu_kind(box)
    yield "driver", (told.driver, told.cuda), (box.software.driver, box.software.cuda)
    yield "topology", told.topology, dict(Counter(link.path for link in box.links))


def _derived(statement: Statement, claim: Claim) -> Iterator[Check]:
    predicate = statement.predicate
    cells = [cell for benchmark in claim.benchmarks for cell in benchmark.cells]
    yield from _samples(cells)
    yield from _marks(cells, predicate.detectors.get("upright"))
    if predicate.source and predicate.headlines:
        yield _HEADLINE.unknown(f"{len(predicate.headlines)} headlines are a publication's: no samples are behind them")
    elif predicate.headlines != headlines_of(claim.benchmarks) and not predicate.source:
        yield _HEADLINE.broken("its headlines are not the means of its cells")
    elif predicate.headlines:
        yield _HEADLINE.holds(f"{len(predicate.headlines)} headlines are the means of their cells")
    if predicate.ladder != ladder_of(claim.of(Evidence)) and not predicate.source:
        yield _LADDER.broken("its rungs are not what its observations say")
    elif predicate.ladder:
        yield _LADDER.holds(f"{len(predicate.ladder)} rungs as their observations say; answers are not shared")


def _samples(cells: Sequence[Cell]) -> Iterator[Check]:
    """Every figure of every cell that enters a mean; a marked cell may have none, and enters none."""
    for cell in cells:
        if cell.samples is not None and (fault := _unlike(cell, cell.samples)) is not None:
            yield _SAMPLES.broken(f"{cell.run}: {fault}")
            return
    bare = sum(cell.samples is None and not cell.marks for cell in cells)
    sampled = sum(len(cell.samples.sent_us) for cell in cells if cell.samples is not None)
    if bare:
        yield _SAMPLES.unknown(f"{bare} of {len(cells)} cells have no samples: nothing is behind their figures")
    elif sampled:
        yield _SAMPLES.holds(f"every figure of {len(cells)} cells follows from {sampled:,} requests")


def _unlike(cell: Cell, samples: Samples) -> str | None:
    """What of the cell does not follow from its samples."""
    if any(len(column) != len(samples.sent_us) for column in samples.model_dump().values()):
        return "its samples are not one row a request"
    wrong = next((figure for figure in derived_figures(cell, samples) if not figure.holds), None)
    if wrong is None:
        return None
    if wrong.claimed is None or wrong.derived is None:
        return f"{wrong.name} does not follow from its samples"
    return f"{wrong.name} is said to be {wrong.claimed:g}, its samples give {wrong.derived:g}"


def _marks(cells: Sequence[Cell], judge: str | None) -> Iterator[Check]:
    """Another version may have marked by other rules: what it let pass and we do not is nobody's proof."""
    if all(cell.marks == marks(cell) for cell in cells):
        return
    if _judges_as_we_do(judge):
        yield _MARKS.broken("a cell hides what is wrong with it, or claims it")
    else:
        yield _MARKS.unknown(f"Upright {on_one_line(judge or '(version unknown)', 40)} marked its cells by other rules")


def _judges_as_we_do(version: str | None) -> bool:
    if version is None or not re.fullmatch(r"\d{1,4}(\.\d{1,4}){2}", version):
        return False
    since, judge, ours = (tuple(map(int, text.split("."))) for text in (RULES_SINCE, version, __version__))
    return since <= judge <= ours


def _stale(recipe: Recipe) -> Iterator[Check]:
    """The engine moved on: this version is older than all that are known, or the newest refuses one of its flags."""
    known = recorded_versions(recipe.engine)
    engine = ENGINES.get(recipe.engine)
    ordered = engine is not None and engine.releases is not None and engine.releases.ordered
    if not known or not ordered or recipe.engine_version is None or recipe.engine_version == known[-1]:
        return
    newest = recorded_flags(recipe.engine, known[-1])
    gone = [setting.name for setting in recipe.arguments if newest is not None and setting.name not in newest]
    gone = [name for name in gone if name.startswith("-")]
    if gone:
        yield _STALE.unknown(f"{recipe.engine} {known[-1]} takes no {', '.join(gone[:3])} any more")


def _level(statement: Statement, checks: Sequence[Check]) -> Level:
    codes = {check.code: check.outcome for check in checks}
    if "broken" in codes.values() or any(check.outcome == "broken" for check in checks):
        return "broken"
    if "stale" in codes:
        return "stale"
    if any(check.outcome == "unknown" and check.code in _NEEDED for check in checks):
        return "claimed"
    if statement.predicate.source is not None or codes.get("samples") != "holds" or "headline" not in codes:
        return "claimed"
    return "consistent"
