"""The tests of tests/faults/test_attacker_*.py -> the attackers and the promises of SECURITY.md, between its marks.

One file an attacker. Its docstring names the attacker before the colon and says what he has after it; each test carries
`@pytest.mark.promise("…")`, itself, by its class or by the module's `pytestmark`; `NOT_PROMISED` lists what is not.
Files are parsed, never imported: a promise is a literal.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
OWNED: tuple[str, ...] = ()
BEGIN, END = "<!-- promises: scripts/generate-docs -->", "<!-- end of the promises -->"
FIRST, LAST = "<!-- attackers: scripts/generate-docs -->", "<!-- end of the attackers -->"
# In the order of the page; any other attacker comes after these, by file name.
ORDER = ("model_answer", "hub_file", "name", "server", "neighbour", "other_user", "bundle", "engine")
_Marked = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def pages() -> dict[str, str]:
    page = (ROOT / "SECURITY.md").read_text()
    files = sorted((ROOT / "tests/faults").glob("test_attacker_*.py"), key=_place)
    rows = "\n".join(overview(file.name, file.read_text()) for file in files)
    table = f"| attacker | what he controls | what holds | shown by |\n|---|---|---|---|\n{rows}\n"
    sections = "\n".join(section(file.name, file.read_text()) for file in files)
    return {"SECURITY.md": _between(_between(page, FIRST, table, LAST), BEGIN, sections, END)}


def _between(page: str, begin: str, text: str, end: str) -> str:
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n\n{text}\n{end}{rest.partition(end)[2]}"


def overview(name: str, text: str) -> str:
    """One attacker as a row."""
    attacker, means = _attacker(ast.parse(text), name)
    holds = "; ".join(_cell(promise) for promise in _by_promise(text, name))
    link = f"[{attacker}](#{re.sub(r'[^a-z0-9 -]', '', attacker.lower()).replace(' ', '-')})"
    return f"| {link} | {_cell(means).rstrip('.')} | {holds} | `{name}` |"


def section(name: str, text: str) -> str:
    """One attacker: who, what is promised and which tests show it, what is not promised."""
    module = ast.parse(text)
    attacker, means = _attacker(module, name)
    rows = _by_promise(text, name)
    lines = [
        f"### {attacker}",
        "",
        f"Has: {means}",
        "",
        "| promised | shown by |",
        "|---|---|",
    ]
    shown = "`, `".join
    lines += [f"| {_cell(promise)} | `{shown(tests)}` |" for promise, tests in rows.items()]
    limits = _literals(module, "NOT_PROMISED", name)
    lines += ["", f"Tests: `tests/faults/{name}`.", *(["", "Not promised:", ""] if limits else [])]
    return "\n".join([*lines, *(f"- {limit}" for limit in limits), ""])


def _attacker(module: ast.Module, name: str) -> tuple[str, str]:
    attacker, colon, means = (ast.get_docstring(module) or "").partition("\n\n")[0].partition(":")
    if not colon:
        raise SystemExit(f"{name}: the docstring begins with the attacker, a colon and what he has")
    return attacker.strip(), " ".join(means.split())


def _by_promise(text: str, name: str) -> dict[str, list[str]]:
    rows: dict[str, list[str]] = {}
    for test, promises in _tests(ast.parse(text), name, ()):
        if not promises:
            raise SystemExit(f'{name}: {test} shows no promise: add @pytest.mark.promise("…")')
        for promise in promises:
            rows.setdefault(promise, []).append(test)
    if not rows:
        raise SystemExit(f"{name}: no test")
    return rows


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _tests(node: ast.Module | ast.ClassDef, name: str, outer: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    outer = (*outer, *_promises(node, name))
    for child in node.body:
        if isinstance(child, ast.ClassDef) and child.name.startswith("Test"):
            yield from ((f"{child.name}::{test}", kept) for test, kept in _tests(child, name, outer))
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and child.name.startswith("test_"):
            yield child.name, (*outer, *_promises(child, name))


def _promises(node: _Marked, name: str) -> Iterator[str]:
    for mark in _marks(node):
        call = mark.func if isinstance(mark, ast.Call) else mark
        kind = ast.unparse(call).removeprefix("pytest.mark.")
        if kind in ("skip", "xfail"):
            raise SystemExit(f"{name}:{mark.lineno}: a promise whose test is marked {kind} is not kept")
        if kind != "promise":
            continue
        words = mark.args if isinstance(mark, ast.Call) else []
        if len(words) != 1 or not isinstance(words[0], ast.Constant) or not isinstance(words[0].value, str):
            raise SystemExit(f"{name}:{mark.lineno}: promise takes one literal string")
        yield " ".join(words[0].value.split())


def _marks(node: _Marked) -> list[ast.expr]:
    if not isinstance(node, ast.Module):
        return list(node.decorator_list)
    marks = [
        child.value
        for child in node.body
        if isinstance(child, ast.Assign) and ast.unparse(child.targets[0]) == "pytestmark"
    ]
    return [each for mark in marks for each in (mark.elts if isinstance(mark, ast.List | ast.Tuple) else [mark])]


def _literals(module: ast.Module, wanted: str, name: str) -> tuple[str, ...]:
    for child in module.body:
        if isinstance(child, ast.Assign) and ast.unparse(child.targets[0]) == wanted:
            limits = ast.literal_eval(child.value)
            if isinstance(limits, str) or not all(isinstance(limit, str) for limit in limits):
                raise SystemExit(f"{name}: {wanted} is a tuple of strings")
            return tuple(" ".join(limit.split()) for limit in limits)
    return ()


def _place(file: Path) -> tuple[int, str]:
    attacker = file.stem.removeprefix("test_attacker_")
    return (ORDER.index(attacker) if attacker in ORDER else len(ORDER), attacker)
