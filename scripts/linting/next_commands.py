"""The commands' own source -> which command each names as the next one, as a graph.

Read from the syntax tree: every `output.next(…)` and every `next: …` that is printed, in all branches, with the answer
after which it is said. A verb that only looks (`--dry-run`, `--plan-only`, `--plan`) is a node of its own, and so is a
verb that says no: what leads to a verb leads to what it says when it succeeds.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from upright.app.cli.verbs import VERBS

ROOT = Path(__file__).parents[2]
CLI = ROOT / "src/upright/app/cli"
LOOKING = frozenset({"dry_run", "plan_only", "plan", "list_them", "verify_only"})
DONE, NO, LOOKED = "done", "no", "only looked"
_GROUPS = frozenset({"catalog", "engine", "fleet", "index", "kernels", "patch", "site", "store"})


@dataclass(frozen=True, order=True)
class Next:
    verb: str
    answer: str
    then: str
    """Empty where nothing more is to be done."""


@cache
def edges() -> tuple[Next, ...]:
    modules = {path.stem: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(CLI.glob("*.py"))}
    helpers = {
        function.name: list(_said(function, {}))
        for name in ("plan_options", "launch_options")
        for function in _functions(modules[name])
    }
    verbs = [(name, tree) for name, tree in modules.items() if name in _VERBS]
    return tuple(sorted({edge for name, tree in verbs for edge in _of(name, tree, helpers)}))


def circles() -> list[list[str]]:
    """Ways through verbs that succeed which come back to where they were."""
    ways: dict[str, set[str]] = {}
    for edge in edges():
        if edge.answer == DONE:
            ways.setdefault(edge.verb, set()).add(edge.then)

    def walk(passed: list[str]) -> Iterator[list[str]]:
        for then in sorted(ways.get(passed[-1], ())):
            if then == passed[-1]:
                continue  # another try of the same, with other words
            if then in passed:
                yield [*passed[passed.index(then) :], then]
            else:
                yield from walk([*passed, then])

    return [circle for verb in sorted(ways) for circle in walk([verb])]


def table() -> list[str]:
    """Markdown: what each verb leads to, by what it answered."""
    rows: dict[tuple[str, str], list[str]] = {}
    for edge in edges():
        rows.setdefault((edge.verb, edge.answer), []).append(f"`{edge.then}`")
    lines = [f"| `{verb}` | {answer} | {', '.join(thens)} |" for (verb, answer), thens in rows.items()]
    return ["| after | which | comes |", "|---|---|---|", *lines]


_VERBS = {verb.replace("-", "_"): verb for verb in VERBS} | {
    f"fleet_{name}": f"fleet {name}" for name in ("down", "plan", "render", "roll", "size", "status", "up")
}
_Said = tuple[str, tuple[str, ...]]


def _of(name: str, tree: ast.Module, helpers: dict[str, list[_Said]]) -> Iterator[Next]:
    functions = _functions(tree)
    commands = {function.name: _typed(_VERBS[name], function) for function in functions}
    local = {function.name: list(_said(function, helpers)) for function in functions if commands[function.name] is None}
    for _ in range(2):  # a helper may call a helper
        local = {one.name: list(_said(one, helpers | local, functions)) for one in functions if one.name in local}
    for function in functions:
        if (verb := commands[function.name]) is not None:
            for answer, thens in _said(function, helpers | local, functions):
                yield from (Next(verb, answer, then) for then in thens)


def _functions(tree: ast.Module) -> list[ast.FunctionDef]:
    return [node for node in tree.body if isinstance(node, ast.FunctionDef)]


def _typed(verb: str, function: ast.FunctionDef) -> str | None:
    """The words of a command; None of a function that is none."""
    for decorator in function.decorator_list:
        call = decorator if isinstance(decorator, ast.Call) else None
        maker = call.func if call else decorator
        if isinstance(maker, ast.Attribute) and maker.attr in ("command", "group"):
            named = [word.value.value for word in call.keywords if word.arg == "name"] if call else []  # type: ignore[attr-defined]
            if isinstance(maker.value, ast.Name) and maker.value.id == "click":
                return verb
            return f"{verb} {named[0] if named else function.name.rstrip('_').replace('_', '-')}"
    return None


def _said(
    function: ast.FunctionDef, helpers: dict[str, list[_Said]], beside: Sequence[ast.FunctionDef] = ()
) -> Iterator[_Said]:
    """(answer, the verbs that are named then), for every place that names one."""
    words = _Words(function, {one.name: one for one in beside})

    def block(statements: Sequence[ast.stmt], answer: str) -> Iterator[_Said]:
        refused = any(_is_no(statement) for statement in statements)
        for statement in statements:
            inside = NO if refused and answer == DONE else answer
            if isinstance(statement, ast.If):
                looks = any(isinstance(one, ast.Name) and one.id in LOOKING for one in ast.walk(statement.test))
                ends = isinstance(statement.body[-1], ast.Return)
                yield from block(statement.body, LOOKED if looks else answer if ends else inside)
                yield from block(statement.orelse, inside)
                continue
            for inner in ("body", "orelse", "finalbody"):
                yield from block(getattr(statement, inner, ()), inside)
            for handler in getattr(statement, "handlers", ()):
                yield from block(handler.body, inside)
            if not hasattr(statement, "body"):
                yield from told(statement, inside)

    def told(statement: ast.stmt, answer: str) -> Iterator[_Said]:
        for node in ast.walk(statement):
            if not isinstance(node, ast.Call):
                continue
            if isinstance(node.func, ast.Attribute) and node.func.attr == "next":
                yield answer, tuple(words.verbs(node.args))
            elif isinstance(node.func, ast.Name) and node.func.id in helpers:
                yield from ((NO if answer == NO else how, thens) for how, thens in helpers[node.func.id])

    yield from block(function.body, DONE)


def _is_no(statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "no"


class _Words:
    """What the first words of a call can be, through names, tuples, choices and functions that return them."""

    def __init__(self, function: ast.FunctionDef, beside: dict[str, ast.FunctionDef]) -> None:
        self._function, self._beside = function, beside

    def verbs(self, arguments: Sequence[ast.expr]) -> Iterator[str]:
        for words in sorted(set(self._sequence(arguments))):
            if words and words[0] in VERBS:
                deeper = words[0] in _GROUPS and len(words) > 1 and words[1][0] not in "-…"
                yield " ".join(words[:2]) if deeper else words[0]

    def _sequence(self, arguments: Sequence[ast.expr]) -> list[tuple[str, ...]]:
        if not arguments:
            return [()]
        first, rest = arguments[0], arguments[1:]
        heads = self._spread(first.value) if isinstance(first, ast.Starred) else self._one(first)
        return [(*head, *tail)[:2] for head in heads for tail in (self._sequence(rest) if len(head) < 2 else [()])]

    def _one(self, word: ast.expr) -> list[tuple[str, ...]]:
        if isinstance(word, ast.Constant) and isinstance(word.value, str):
            return [(word.value,)]
        if isinstance(word, ast.IfExp):
            return [*self._one(word.body), *self._one(word.orelse)]
        return [("…",)]

    def _spread(self, words: ast.expr) -> list[tuple[str, ...]]:
        if isinstance(words, (ast.Tuple, ast.List)):
            return self._sequence(words.elts)
        if isinstance(words, ast.IfExp):
            return [*self._spread(words.body), *self._spread(words.orelse)]
        if isinstance(words, ast.Name):
            assigned = [node for node in ast.walk(self._function) if isinstance(node, ast.Assign)]
            given = [node.value for node in assigned if words.id in map(ast.unparse, node.targets)]
            return [found for value in given for found in self._spread(value)] or [("…",)]
        if isinstance(words, ast.Call) and isinstance(words.func, ast.Name) and words.func.id in self._beside:
            there = self._beside[words.func.id]
            return [
                found
                for node in ast.walk(there)
                if isinstance(node, ast.Return) and node.value is not None
                for found in _Words(there, self._beside)._spread(node.value)
            ]
        return [("…",)]
