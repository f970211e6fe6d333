"""A patch row + an engine's files -> applied, verified, reverted; refused unless it is needed and known.

Nothing is remembered elsewhere: the original lies beside the file, and a file counts as patched exactly when the edit
of that original gives its bytes.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast

from upright.base.errors import EngineError
from upright.engines.facets.kernels import Shapes
from upright.facts import catalog
from upright.facts.catalog import versions
from upright.facts.catalog.rows.patch import PatchRow
from upright.facts.records.kernel import KernelVerdict
from upright.proof.kernels import edits
from upright.proof.kernels.capture import call, way
from upright.proof.kernels.compile import CompileOutcome, CompileTask
from upright.proof.kernels.judging import judged
from upright.proof.kernels.runs import Compiler
from upright.proof.kernels.sources import EngineSource
from upright.proof.kernels.targets import target

State = Literal["applicable", "applied", "not-needed", "unknown-file", "absent", "changed"]


@dataclass(frozen=True)
class Found:
    """A patch, held against one engine's files."""

    row: PatchRow
    source: EngineSource
    state: State
    why: str
    file: Path | None = None
    """The file that it is about, if the engine has it."""

    @property
    def backup(self) -> Path:
        assert self.file is not None
        return self.file.with_name(f"{self.file.name}.before-{self.row.id}")


def patches(engine: str | None = None) -> tuple[PatchRow, ...]:
    rows = cast("tuple[PatchRow, ...]", tuple(catalog.rows("patches").values()))
    return tuple(row for row in rows if engine in (None, row.engine))


def patch(name: str, engine: str) -> PatchRow:
    row = cast("PatchRow", catalog.get("patches", name))
    if row.engine != engine:
        raise EngineError(f"{name} is a patch for {row.engine}, not for {engine}")
    return row


def look(row: PatchRow, source: EngineSource) -> Found:
    """What this patch would be for these files, by their bytes."""
    present = [path for path in dict.fromkeys(source.root / known.path for known in row.files) if path.is_file()]
    if not present:
        return _other(Found(row, source, "absent", f"there is no {row.files[0].path}"))
    patch_status = Found(
        row, source, "unknown-file", "its bytes are not those of a release that the patch knows", present[0]
    )
    known = {known_file.sha256: known_file for known_file in row.files}
    if (release := known.get(_digest(present[0]))) is not None:
        return replace(patch_status, state="applicable", why=f"the file of {row.engine} {release.versions}")
    if patch_status.backup.is_file():
        return _patched(patch_status, set(known))
    return _other(patch_status)


def _other(found: Found) -> Found:
    row, version = found.row, found.source.version
    if version and row.expires and versions.inside(version, f">={row.expires}"):
        return replace(found, state="not-needed", why=f"{row.engine} {row.expires} and later have it")
    return found


def _patched(found: Found, known: set[str]) -> Found:
    assert found.file is not None
    original = found.backup.read_bytes()
    if hashlib.sha256(original).hexdigest() not in known:
        return replace(found, state="changed", why=f"{found.backup.name} is not an original that the patch knows")
    if edits.apply(original.decode(), found.row.edit).encode() == found.file.read_bytes():
        return replace(found, state="applied", why="the file is the original with this edit")
    return replace(found, state="changed", why="it was patched, and changed since")


def edited(found: Found) -> str:
    assert found.file is not None
    return edits.apply(found.file.read_bytes().decode(), found.row.edit)


def diff(found: Found) -> str:
    """The change as `patch -p1` takes it, from the directory that holds the package."""
    assert found.file is not None
    name = found.file.relative_to(found.source.root).as_posix()
    before = found.file.read_bytes().decode().splitlines(keepends=True)
    lines = difflib.unified_diff(before, edited(found).splitlines(keepends=True), f"a/{name}", f"b/{name}")
    return "".join(lines)


def prove(found: Found, compiler: Compiler, text: str | None = None) -> list[KernelVerdict]:
    """The row's proofs on the file as it is, or as `text` would make it."""
    texts = {found.file: text} if text is not None and found.file is not None else None
    verdicts = []
    for proof in found.row.proofs:
        kernel_way, silicon = way(found.row.engine, proof.way), target(proof.target)
        shapes = Shapes(proof.heads, proof.kv_heads, proof.key_dim, proof.value_dim, kv_dtype=proof.kv_dtype)
        try:
            (outcomes,) = compiler.outcomes([CompileTask(call(kernel_way, found.source.root, shapes, texts))], silicon)
        except EngineError as error:
            outcomes = [CompileOutcome(kernel_way.launcher, error=error.message)]
        verdicts += [judged(outcome, kernel_way, shapes, found.source, silicon) for outcome in outcomes]
    return verdicts


def refusal(found: Found, before: Sequence[KernelVerdict]) -> str | None:
    """Why this patch is not for this file; None if it is."""
    fits = bool(before) and all(kernel_verdict.verdict == "fits" for kernel_verdict in before)
    if found.state == "applied":
        return "it is applied already"
    if found.state in ("absent", "changed"):
        return found.why
    if found.state == "not-needed" or fits:
        return f"not needed: {found.why if found.state == 'not-needed' else 'it fits'}{_figures(before)}"
    if found.state == "unknown-file":
        return found.why
    if not any(kernel_verdict.verdict == "does-not-fit" for kernel_verdict in before):
        return f"cannot tell whether it is needed: {before[0].why}"
    return None


def is_verified(found: Found, after: Sequence[KernelVerdict]) -> bool:
    """The file is the original with exactly this edit, and all of its kernels fit."""
    return found.state == "applied" and bool(after) and all(verdict.verdict == "fits" for verdict in after)


def _figures(before: Sequence[KernelVerdict]) -> str:
    tightest = max(
        (kernel_verdict for kernel_verdict in before if kernel_verdict.needed_bytes),
        key=lambda kernel_verdict: kernel_verdict.needed_bytes or 0,
        default=None,
    )
    return f"; {tightest.kernel} {tightest.why}" if tightest else ""


def write(found: Found, text: str) -> None:
    """The original is kept first; each step is whole or not at all, so a kill leaves a file that runs."""
    assert found.file is not None
    mode = found.file.stat().st_mode & 0o7777
    _replace(found.backup, found.file.read_bytes(), mode)
    _replace(found.file, text.encode(), mode)


def revert(found: Found, *, dry_run: bool = False) -> None:
    """Every byte of the original, from the copy beside the file."""
    if found.state != "applied" or found.file is None:
        hint = f"upright patch list --engine {found.row.engine}"
        raise EngineError(f"{found.row.id} cannot be reverted: {found.why}", hint=hint)
    if not dry_run:
        _replace(found.file, found.backup.read_bytes(), found.backup.stat().st_mode & 0o7777)
        found.backup.unlink()


def _replace(path: Path, content: bytes, mode: int) -> None:
    from upright.facts.store import write_atomically

    try:
        write_atomically(path, content, mode=mode)
        path.chmod(mode)
    except OSError as error:
        raise EngineError(
            f"{path} cannot be written: {error.strerror}", hint="as the owner of that environment"
        ) from None


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
