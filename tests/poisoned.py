"""Records and a home of somebody else -> the same with a hostile string in every field that takes one."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from tests.golden.deployments import PUBLISHED, recipe
from tests.scripted.cells import cell
from tests.unit.facts.store.samples import deployment, observation
from upright.base.errors import UprightError
from upright.facts import catalog
from upright.facts.catalog.model_records import records as model_records
from upright.facts.records.base import Record, from_dict
from upright.facts.records.benchmark import Benchmark
from upright.facts.records.deployment import Deployment
from upright.facts.records.evidence import Observation
from upright.facts.store import DeploymentDir
from upright.planning.choosing import plan

R = TypeVar("R", bound=Record)
KEPT = {
    "record",
    "schema",
    "digest",
    "engine",
    "engine_version",
    "made_from",
    "runtime",
    "at",
    "created_at",
    "changed_at",
}
"""A verb that knows no such engine, or cannot read the time, shows nothing of the rest."""
Path_ = tuple[str | int, ...]


def _leaves(content: Any, path: Path_ = ()) -> Iterator[Path_]:
    pairs = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for name, inner in pairs:
        if isinstance(inner, str) and name not in KEPT:
            yield (*path, name)
        yield from _leaves(inner, (*path, name))


def _put(content: dict[str, Any], path: Path_, text: str) -> None:
    inner: Any = content
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = text


def _takes(record: Record, paths: list[Path_], text: str) -> bool:
    content = record.to_dict()
    del content["digest"]
    for path in paths:
        _put(content, path, text)
    try:
        from_dict(type(record), content)
    except UprightError:
        return False
    return True


def _taken(record: Record, text: str) -> list[Path_]:
    """Where the record takes that text: what one entry of a list takes, the others take too."""
    alike: dict[Path_, list[Path_]] = {}
    for path in _leaves(record.to_dict()):
        alike.setdefault(tuple("*" if isinstance(step, int) else step for step in path), []).append(path)
    return [path for paths in alike.values() if _takes(record, paths, text) for path in paths]


@cache
def _fields(kind: str) -> tuple[list[Path_], list[Path_]]:
    """Where a record takes any words, and where names: without line feeds and escapes."""
    return _taken(RECORDS[kind], "a\n\x1b[2Jb"), _taken(RECORDS[kind], "a b'<c>")


def poisoned(kind: str, text: str) -> Record:
    words, names = _fields(kind)
    record = RECORDS[kind]
    for paths in (names, words):
        content = copy.deepcopy(record.to_dict())
        del content["digest"]
        for path in paths:
            _put(content, path, text)
        try:
            return from_dict(type(record), content)
        except UprightError:
            continue
    return record


def _records() -> dict[str, Record]:
    """One of each kind that a deployment's directory holds, of one published run."""
    run = PUBLISHED["kimi-k26-vllm"]
    model = next(record for record in model_records(catalog.model(run.model)) if record.name == run.model)
    box = catalog.box_record(run.box)
    chosen = plan(box, model, run.goal)[0]
    made = recipe("kimi-k26-vllm")
    bench = Benchmark(
        run="r", title="t", workload="short", about="256 in", deployment=None, model="m", engine="vllm",
        engine_version="0.32.0", base_url=None, at="", seed=0, repeats=3, self_test=None,
        cells=tuple(cell("a", streams, repeat, 50.0 * streams) for streams in (1, 4) for repeat in (1, 2)),
    )  # fmt: skip
    stands = deployment("d").model_copy(update={"state": "failed", "reason": "why", "engine": "vllm"})
    return {record.kind: record for record in (box, model, chosen, made, bench, stands)}


RECORDS = _records()


def planted(home: Path, text: str, folder: Path) -> None:
    """A deployment `d` whose every word is hostile, and its records as files in `folder`."""
    place = home / "deployments/d"
    place.mkdir(parents=True)
    directory = DeploymentDir(place)
    for kind in RECORDS:
        record = poisoned(kind, text)
        if isinstance(record, Deployment):
            record = record.model_copy(update={"name": "d"})
        (folder / f"{kind}.json").write_text(record.to_json())
        if not isinstance(record, Benchmark):
            directory.write(record)
    said = text.encode("utf-8", "backslashreplace").decode()
    for number in range(3):
        broken = {"reason": said, "response": {"choices": [{"message": {"content": said}}]}, "verdict": "failed"}
        directory.append(Observation.model_validate({**dict(observation(number)), **broken}))
    lines = f"INFO starting {said}\nRuntimeError: {said}\ntorch.OutOfMemoryError: CUDA out of memory. {said}\n"
    directory.log.write_text(lines)
    (folder / "engine.log").write_text(lines)
