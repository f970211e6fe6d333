"""Makes a Statement about a deployment's recipe, with everything that a reader needs to check it.

Opt-in, and nothing is sent: the exact bytes can be looked at before they are written.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upright import __version__
from upright.base.bounds.files import MOST_KEY_BYTES, file_text, open_file
from upright.base.errors import StoreError
from upright.base.home import home, make_private
from upright.engines import engine_named
from upright.evidence.bundle.identities import identities_of
from upright.evidence.bundle.manifest import Redaction
from upright.evidence.bundle.redacting import KnownIdentities, Redactor
from upright.evidence.share import clocks
from upright.evidence.share.anonymous import (
    box_kind,
    gpu_kind,
    shared_benchmark,
    shared_box,
    shared_evidence,
    shared_model,
    shared_plan,
    shared_recipe,
    shared_residuals,
)
from upright.evidence.share.rederiving import headlines_of, ladder_of
from upright.evidence.share.signing import BUNDLES, sign
from upright.evidence.share.statement import (
    Predicate,
    Shard,
    SharedBox,
    SharedEngine,
    SharedModel,
    StatedSubject,
    Statement,
    identity_of,
)
from upright.facts.records.base import R, Record, digest_of, from_dict
from upright.facts.records.benchmark import Benchmark
from upright.facts.records.box import Box
from upright.facts.records.evidence import Evidence
from upright.facts.records.model import Model
from upright.facts.records.plan import Plan
from upright.facts.records.recipe import Recipe
from upright.facts.records.residuals import Residuals
from upright.facts.store import DeploymentDir, write_atomically
from upright.proof.benchmark.bench import saved_benchmarks
from upright.serving.endpoint import guards

_LARGEST_HASHED_BYTES = 8 << 30
_MOST_LOG_LINES = 4000
_LONGEST_LOG_LINE = 400
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NCCL = re.compile(r"\bnccl==(\d+(?:\.\d+)+)|\bNCCL version (\d+(?:\.\d+)+)")


@dataclass(frozen=True)
class SharedStatement:
    """A statement, and where it is."""

    statement: Statement
    content: bytes
    path: Path
    signature: Path | None

    def told(self) -> dict[str, Any]:
        return {
            "path": str(self.path), "size_bytes": len(self.content), "identity": identity_of(self.content),
            "signature": str(self.signature) if self.signature else None,
            "headlines": [headline.model_dump(mode="json") for headline in self.statement.predicate.headlines],
            "redactions": [redaction.model_dump() for redaction in self.statement.predicate.redactions],
        }  # fmt: skip


def share(
    directory: DeploymentDir, path: Path | None, *, key: Path | None, write: bool = True, replays: tuple[str, ...] = ()
) -> SharedStatement:
    """The same directory gives the same bytes; without `write` they are only made."""
    path = (path or Path(f"{directory.name}.bundle.json")).expanduser().absolute()
    statement = make_statement(directory, replays=replays)
    content = statement.encoded()
    if not write:
        return SharedStatement(statement, content, path, None)
    write_atomically(path, content)
    return SharedStatement(statement, content, path, sign(path, key, BUNDLES) if key else None)


def make_statement(
    directory: DeploymentDir, *, known: KnownIdentities | None = None, replays: tuple[str, ...] = ()
) -> Statement:
    """What is on the disk of one deployment, as a claim that another can check."""
    known = known or identities_of(directory)
    redactor = Redactor(known)
    own = directory.read(Recipe)
    box = _clean(shared_box(directory.read(Box)), redactor)
    model = _clean(shared_model(directory.read(Model)), redactor)
    plan = _clean(shared_plan(directory.read(Plan), model, box), redactor)
    recipe = _clean(shared_recipe(own), redactor)
    records: dict[str, Record] = {"box": box, "model": model, "plan": plan, "recipe": recipe}
    if directory.has(Residuals):
        records["residuals"] = _clean(shared_residuals(directory.read(Residuals), plan), redactor)
    evidence = None
    if directory.has(Evidence):
        evidence = _clean(
            shared_evidence(directory.read(Evidence), recipe.served_name, recipe.digest, was=own.digest), redactor
        )
        records["evidence"] = evidence
    benchmarks = tuple(
        _clean(shared, redactor)
        for benchmark in saved_benchmarks(directory)
        if (shared := shared_benchmark(benchmark, recipe.served_name, recipe.digest, was=own.digest)) is not None
    )
    statement = Statement(
        subject=(StatedSubject(name=f"recipe of {model.name}", digest={"sha256": recipe.digest}),),
        predicate=Predicate(
            made_at=_newest(evidence, benchmarks),
            detectors=_detectors(evidence),
            replays=replays,
            model=_model(directory.read(Model), model, own.model_path),
            engine=_engine(recipe),
            box=_box(box, directory),
            headlines=headlines_of(benchmarks),
            ladder=ladder_of(evidence),
            records={kind: record.to_dict() for kind, record in records.items()},
            benchmarks=tuple(benchmark.to_dict() for benchmark in benchmarks),
            log=_log(directory, plan.engine, benchmarks, redactor),
            redactions=tuple(Redaction(what=what, times=times) for what, times in sorted(redactor.times.items())),
        ),
    )
    _refuse_leaks(statement.encoded(), known)
    return statement


def _clean(record: R, redactor: Redactor) -> R:
    """Through the redactor, which knows this machine's secrets; references to other records are no text."""
    told = redactor.data({**record.to_dict(), "made_from": []})
    told["made_from"] = list(record.made_from)
    told["digest"] = digest_of(told)
    return from_dict(type(record), told, where=f"the shared {record.kind}")


def _newest(evidence: Evidence | None, benchmarks: tuple[Benchmark, ...]) -> str:
    """By the evidence, never by the clock of whoever packs it: the same directory gives the same bytes."""
    times = [observation.at for observation in evidence.observations] if evidence else []
    times += [cell.at for benchmark in benchmarks for cell in benchmark.cells]
    return max(times, default="")


def _detectors(evidence: Evidence | None) -> dict[str, str]:
    code = b"".join(file.read_bytes() for file in sorted(Path(guards.__file__).parent.glob("*.py")))
    detectors = {"upright": __version__, "guards": hashlib.sha256(code).hexdigest()}
    if evidence and evidence.prompts:
        detectors["prompts"] = evidence.prompts
    return detectors


def _model(own: Model, model: Model, path: str) -> SharedModel:
    repository = model.source if model.revision else None
    folder = Path(own.path or path)
    shards = tuple(
        Shard(name=file.name, size_bytes=file.size_bytes, sha256=_sha256(folder, file.name, file.size_bytes))
        for file in model.files
    )
    return SharedModel(name=model.name, repository=repository, revision=model.revision, shards=shards)


def _sha256(folder: Path, name: str, size_bytes: int) -> str | None:
    """The hub's cache names a file by its hash; others are read, if that takes seconds and not hours."""
    file = folder / name if folder.is_dir() else folder.with_name(Path(name).name)
    try:
        if _DIGEST.fullmatch(file.resolve().name):
            return file.resolve().name
        if not file.is_file() or file.stat().st_size != size_bytes or size_bytes > _LARGEST_HASHED_BYTES:
            return None
        with open_file(file) as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError:
        return None


def _engine(recipe: Recipe) -> SharedEngine:
    return SharedEngine(
        name=recipe.engine, version=recipe.engine_version, commit=recipe.engine_commit, image=recipe.image
    )


def _box(box: Box, directory: DeploymentDir) -> SharedBox:
    return SharedBox(
        kind=box_kind(box),
        gpu=gpu_kind(box),
        gpus=len(box.gpus),
        driver=box.software.driver,
        cuda=box.software.cuda,
        nccl=_nccl(directory),
        topology=dict(Counter(link.path for link in box.links)),
        box_id=box_id(),
    )


def _nccl(directory: DeploymentDir) -> str | None:
    named = _NCCL.search(_text(directory))
    return (named[1] or named[2]) if named else None


def _log(
    directory: DeploymentDir, engine: str, benchmarks: tuple[Benchmark, ...], redactor: Redactor
) -> tuple[str, ...]:
    """Lines that the engine's own reader reads: memory, and the clock of requests. No others, so no prompts.

    A log begins anew with each start: one that does not have the benchmarks' requests is no witness of them."""
    reader = engine_named(engine).log
    timed = re.compile(reader.timed) if reader.timed else None
    requests, told = [], []
    for line in _text(directory).splitlines():
        if timed is not None and (request := timed.search(line)):
            requests.append(request[0][:_LONGEST_LOG_LINE])
        elif reader.memory(line).readings:
            told.append(redactor.text(line[:_LONGEST_LOG_LINE]))
    clock = clocks.engine_clock(benchmarks, reader.timings("\n".join(requests)))
    fits = len(requests) <= _MOST_LOG_LINES and all(check.outcome == "holds" for check in clock)
    return (*told[:_MOST_LOG_LINES], *(requests if fits else ()))


def _text(directory: DeploymentDir) -> str:
    try:
        with open_file(directory.log) as file:
            return file.read(64 << 20).decode("utf-8", "backslashreplace")
    except OSError:
        return ""


def _refuse_leaks(content: bytes, known: KnownIdentities) -> None:
    """The last look: none of the secrets that are known is in what would be shared."""
    for secret, what in known.secrets.items():
        if len(secret) >= 6 and secret.encode() in content:
            raise StoreError(f"the statement still holds {what}; nothing was written", hint="this is a bug: tell us")


_MACHINE = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))


def box_id() -> str | None:
    """None on a machine that has no number."""
    for file in _MACHINE:
        try:
            number = file_text(file, MOST_KEY_BYTES, errors="replace").strip()
        except OSError:
            continue
        if number:
            return hashlib.sha256(f"{salt()} {number}".encode()).hexdigest()
    return None


def salt() -> str:
    """This person's secret, made on first use; it never leaves the machine."""
    file = home() / "sharing.salt"
    if not file.exists():
        make_private(file.parent)
        write_atomically(file, f"{secrets.token_hex(32)}\n".encode(), mode=0o600)
    return file_text(file, MOST_KEY_BYTES, own=True).strip()
