"""Applies, verifies and reverts patches of an engine; refused unless needed and known.

Nothing is remembered elsewhere: the original lies beside the file, and a file counts as patched exactly when the edit
of that original gives its bytes.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeVar, cast

from upright.base.bounds.files import file_bytes
from upright.base.errors import EngineError
from upright.engines.facets.kernels import Shapes
from upright.facts import catalog
from upright.facts.catalog import versions
from upright.facts.catalog.rows.patch import Edit, PatchRow
from upright.facts.records.kernel import KernelVerdict
from upright.proof.kernels.capture import kernel_route, launcher_call
from upright.proof.kernels.compile import CompileOutcome, CompileTask
from upright.proof.kernels.compiler import Compiler
from upright.proof.kernels.sources import EngineSource
from upright.proof.kernels.targets import target
from upright.proof.kernels.verdicts import verdict_of

State = Literal["applicable", "applied", "not-needed", "unknown-file", "absent", "changed"]


@dataclass(frozen=True)
class PatchMatch:
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


def match_patch(row: PatchRow, source: EngineSource) -> PatchMatch:
    """What this patch would be for these files, by their bytes."""
    present = [path for path in dict.fromkeys(source.root / known.path for known in row.files) if path.is_file()]
    if not present:
        return _other(PatchMatch(row, source, "absent", f"there is no {row.files[0].path}"))
    patch_status = PatchMatch(
        row, source, "unknown-file", "its bytes are not those of a release that the patch knows", present[0]
    )
    known = {known_file.sha256: known_file for known_file in row.files}
    if (release := known.get(_digest(present[0]))) is not None:
        return replace(patch_status, state="applicable", why=f"the file of {row.engine} {release.versions}")
    if patch_status.backup.is_file():
        return _patched(patch_status, set(known))
    return _other(patch_status)


def _other(found: PatchMatch) -> PatchMatch:
    row, version = found.row, found.source.version
    if version and row.expires and versions.in_range(version, f">={row.expires}"):
        return replace(found, state="not-needed", why=f"{row.engine} {row.expires} and later have it")
    return found


def _patched(found: PatchMatch, known: set[str]) -> PatchMatch:
    assert found.file is not None
    original = file_bytes(found.backup)
    if hashlib.sha256(original).hexdigest() not in known:
        return replace(found, state="changed", why=f"{found.backup.name} is not an original that the patch knows")
    if apply_edit(original.decode(), found.row.edit).encode() == file_bytes(found.file):
        return replace(found, state="applied", why="the file is the original with this edit")
    return replace(found, state="changed", why="it was patched, and changed since")


def patched_text(found: PatchMatch) -> str:
    assert found.file is not None
    return apply_edit(file_bytes(found.file).decode(), found.row.edit)


def diff(found: PatchMatch) -> str:
    """The change as `patch -p1` takes it, from the directory that holds the package."""
    assert found.file is not None
    name = found.file.relative_to(found.source.root).as_posix()
    before = file_bytes(found.file).decode().splitlines(keepends=True)
    lines = difflib.unified_diff(before, patched_text(found).splitlines(keepends=True), f"a/{name}", f"b/{name}")
    return "".join(lines)


def patch_verdicts(found: PatchMatch, compiler: Compiler, text: str | None = None) -> list[KernelVerdict]:
    """The row's proofs on the file as it is, or as `text` would make it."""
    texts = {found.file: text} if text is not None and found.file is not None else None
    verdicts = []
    for proof in found.row.proofs:
        kernel_way, silicon = kernel_route(found.row.engine, proof.way), target(proof.target)
        shapes = Shapes(proof.heads, proof.kv_heads, proof.key_dim, proof.value_dim, kv_dtype=proof.kv_dtype)
        try:
            (outcomes,) = compiler.outcomes(
                [CompileTask(launcher_call(kernel_way, found.source.root, shapes, texts))], silicon
            )
        except EngineError as error:
            outcomes = [CompileOutcome(kernel_way.launcher, error=error.message)]
        verdicts += [verdict_of(outcome, kernel_way, shapes, found.source, silicon) for outcome in outcomes]
    return verdicts


def refusal(found: PatchMatch, before: Sequence[KernelVerdict]) -> str | None:
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


def is_verified(found: PatchMatch, after: Sequence[KernelVerdict]) -> bool:
    """The file is the original with exactly this edit, and all of its kernels fit."""
    return found.state == "applied" and bool(after) and all(verdict.verdict == "fits" for verdict in after)


def _figures(before: Sequence[KernelVerdict]) -> str:
    tightest = max(
        (kernel_verdict for kernel_verdict in before if kernel_verdict.needed_bytes),
        key=lambda kernel_verdict: kernel_verdict.needed_bytes or 0,
        default=None,
    )
    return f"; {tightest.kernel} {tightest.why}" if tightest else ""


def write(found: PatchMatch, text: str) -> None:
    """The original is kept first; each step is whole or not at all, so a kill leaves a file that runs."""
    assert found.file is not None
    mode = found.file.stat().st_mode & 0o7777
    _replace(found.backup, file_bytes(found.file), mode)
    _replace(found.file, text.encode(), mode)


def revert(found: PatchMatch, *, dry_run: bool = False) -> None:
    """Every byte of the original, from the copy beside the file."""
    if found.state != "applied" or found.file is None:
        hint = f"upright tools kernels patch list --engine {found.row.engine}"
        raise EngineError(f"{found.row.id} cannot be reverted: {found.why}", hint=hint)
    if not dry_run:
        _replace(found.file, file_bytes(found.backup), found.backup.stat().st_mode & 0o7777)
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
    return hashlib.sha256(file_bytes(path)).hexdigest()


N = TypeVar("N", bound=ast.stmt)


def apply_edit(text: str, edit: Edit) -> str:
    function = _function(ast.parse(text), edit.function)
    place = _branch(function, edit) if edit.kind == "branch-before" else _statement(function, edit)
    lines = text.split("\n")
    line = lines[place.lineno - 1]
    column = len(line.encode()[: place.col_offset].decode())
    indent, at = line[:column], sum(len(earlier_line) + 1 for earlier_line in lines[: place.lineno - 1]) + column
    if indent.strip() or text.startswith("elif", at):
        raise EngineError(f"{edit.function}: {edit.anchor} does not stand at the start of a line")
    joint = "el" if edit.kind == "branch-before" else ""
    code = textwrap.indent(edit.code.strip("\n"), indent).lstrip()
    changed = f"{text[:at]}{code}\n{indent}{joint}{text[at:]}"
    _only_there(text, changed, edit)
    return changed


def changed_functions(before: str, after: str) -> set[str]:
    """Names of the top-level statements whose syntax trees differ."""
    old, new = (_statements(ast.parse(text)) for text in (before, after))
    return {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}


def _function(tree: ast.Module, name: str) -> ast.FunctionDef:
    definitions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    if len(definitions) != 1:
        raise EngineError(f"the file has {len(definitions)} functions {name}, not one")
    return definitions[0]


def _branch(function: ast.FunctionDef, edit: Edit) -> ast.If:
    wanted = ast.unparse(ast.parse(edit.anchor, mode="eval"))
    branches = [node for node in ast.walk(function) if isinstance(node, ast.If) and ast.unparse(node.test) == wanted]
    return _one(branches, edit)


def _statement(function: ast.FunctionDef, edit: Edit) -> ast.Expr:
    """The statement that launches `anchor[grid](...)`."""
    statements = [node for node in ast.walk(function) if isinstance(node, ast.Expr) and edit.anchor in _launched(node)]
    return _one(statements, edit)


def _launched(node: ast.Expr) -> Iterator[str]:
    if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Subscript):
        yield ast.unparse(node.value.func.value)


def _one(found: list[N], edit: Edit) -> N:
    if len(found) != 1:
        raise EngineError(f"{edit.function} has {len(found)} places {edit.anchor!r}, not one")
    return found[0]


def _only_there(before: str, after: str, edit: Edit) -> None:
    try:
        changed = changed_functions(before, after)
    except SyntaxError as error:
        raise EngineError(f"the edit of {edit.function} does not parse: {error.msg}") from None
    if changed != {edit.function}:
        raise EngineError(f"the edit changes {', '.join(sorted(changed))}, not only {edit.function}")


def _statements(tree: ast.Module) -> dict[str, str]:
    statement_dumps: dict[str, str] = {}
    for place, node in enumerate(tree.body):
        name = node.name if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else f"statement {place + 1}"
        statement_dumps[name if name not in statement_dumps else f"{name} ({place + 1})"] = ast.dump(node)
    return statement_dumps
