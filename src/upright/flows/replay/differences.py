"""What differs between a claim and what is prepared here, and what that changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from upright.evidence.share.anonymous import box_kind, gpu_kind, shared_recipe
from upright.evidence.share.statement import Statement
from upright.evidence.share.verifying import Claim
from upright.facts.records.base import Part, Reason
from upright.facts.records.box import Box
from upright.facts.records.plan import Plan
from upright.facts.records.recipe import Recipe
from upright.flows.line.preparing import Prepared

_COMPARED_ONLY = "figures are compared, and do not count as a reproduction"
_MAY_MOVE = "may move figures; it counts"


class ReplayDifference(Part):
    """One thing that is not as in the claim."""

    what: str
    """cards, links, driver, engine, weights, flags or speed."""
    claimed: Reason
    """As the claim has it."""
    here: Reason
    """As it is on the box that it is replayed on."""
    changes: Reason
    """What follows."""


def differences(statement: Statement, claim: Claim, prepared: Prepared) -> Iterator[ReplayDifference]:
    """In the order in which they matter."""
    told, box = statement.predicate.box, prepared.box
    yield from _unlike("cards", told.kind, box_kind(box), f"another kind of box: {_COMPARED_ONLY}")
    yield from _unlike("links", _links(told.topology), _links(_paths(box)), _MAY_MOVE)
    yield from _unlike("driver", told.driver or "none", box.software.driver or "none", _MAY_MOVE)
    yield from _unlike("CUDA", told.cuda or "none", box.software.cuda or "none", _MAY_MOVE)
    yield from _engine(statement, prepared)
    if claim.benchmarks or statement.predicate.model.shards:
        yield from _unlike("weights", *_weights(statement, prepared), f"other weights: {_COMPARED_ONLY}")
    recipe = claim.of(Recipe)
    if recipe is not None and prepared.recipe is not None:
        yield from _flags(recipe, shared_recipe(prepared.recipe))
    yield from _speed(claim, prepared)


def _engine(statement: Statement, prepared: Prepared) -> Iterator[ReplayDifference]:
    told, recipe = statement.predicate.engine, prepared.recipe
    here = (recipe.engine_version if recipe else prepared.plan.engine_version) or "unknown"
    yield from _unlike("engine", told.version or "unknown", here, f"another version of {told.name}: {_COMPARED_ONLY}")


def _weights(statement: Statement, prepared: Prepared) -> tuple[str, str]:
    claimed = [(shard.name.rpartition("/")[2], shard.size_bytes) for shard in statement.predicate.model.shards]
    here = [(file.name.rpartition("/")[2], file.size_bytes) for file in prepared.model.files]
    return _files(claimed), _files(here)


def _files(files: list[tuple[str, int]]) -> str:
    total = sum(size_bytes for _, size_bytes in files)
    return f"{len(files)} files, {total:,} B" + (f", {files[0][0]}" if files else "")


def _flags(theirs: Recipe, ours: Recipe) -> Iterator[ReplayDifference]:
    claimed = {setting.name: setting.value for setting in theirs.arguments}
    here = {setting.name: setting.value for setting in ours.arguments}
    for name in sorted(claimed.keys() | here.keys()):
        if (name in claimed, claimed.get(name)) != (name in here, here.get(name)):
            yield ReplayDifference(
                what="flags",
                claimed=_flag(name, claimed),
                here=_flag(name, here),
                changes=f"another recipe; {_MAY_MOVE}",
            )


def _flag(name: str, flags: dict[str, str | None]) -> str:
    if name not in flags:
        return f"no {name}"
    return name if flags[name] is None else f"{name} {flags[name]}"


def _speed(claim: Claim, prepared: Prepared) -> Iterator[ReplayDifference]:
    plan = claim.of(Plan)
    if plan is None or plan.speed is None or prepared.plan.speed is None:
        return
    there, here = plan.speed.decode.best, prepared.plan.speed.decode.best
    if there and here and not 0.95 < here / there < 1.05:
        yield ReplayDifference(
            what="speed", claimed=f"{there:,.1f} tok/s a user predicted", here=f"{here:,.1f} tok/s predicted",
            changes=f"decode is predicted to be {here / there:.2f} times as fast here",
        )  # fmt: skip


def _unlike(what: str, claimed: str, here: str, changes: str) -> Iterator[ReplayDifference]:
    if claimed != here:
        yield ReplayDifference(what=what, claimed=claimed, here=here, changes=changes)


def _paths(box: Box) -> dict[str, int]:
    return dict(Counter(link.path for link in box.links)) if gpu_kind(box) else {}


def _links(topology: dict[str, int]) -> str:
    return ", ".join(f"{count} {path}" for path, count in sorted(topology.items())) or "none"
