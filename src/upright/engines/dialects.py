"""Model + engine -> the parsers that read its tool calls and its thinking, and by what they were told.

An artifact that was read is judged by its own files: chat template, special tokens, architecture. Its folder and its
repository have no say, so that the same files get the same answer wherever they are. A model that was not read is only
a name, and what the catalogue says of that name holds. A row of the person's own goes before both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, cast

from upright.engines.facets.flags import FlagCase
from upright.facts.catalog import rows as rows_of
from upright.facts.catalog.rows.model import Parsers
from upright.facts.records.model import Model
from upright.facts.records.recipe import Setting

if TYPE_CHECKING:
    from upright.facts.catalog.rows.dialect import DialectRow

_TOOLS = "tools"


class KnownParsers(NamedTuple):
    """What an engine is told, and why."""

    parsers: Parsers
    why: str
    source: str


def dialect_of(model: Model) -> DialectRow | None:
    """How the artifact writes tool calls, by its own files; None if no row fits, or it was not read."""
    if model.basis != "read":
        return None
    marks = frozenset(model.dialogue_marks or ())
    rows = cast("Iterable[DialectRow]", rows_of("dialects").values())
    return next((row for row in rows if row.fits(model.architecture.name, marks)), None)


def never_thinks(model: Model) -> bool:
    """Whether its dialect has a mark of thinking, and its template has not."""
    dialect = dialect_of(model)
    return dialect is not None and dialect.thinking_mark not in (None, *(model.dialogue_marks or ()))


def parsers_of(case: FlagCase, engine: str) -> KnownParsers | None:
    """None if nothing tells them."""
    row, model = case.row, case.model
    if row is not None and engine in row.parsers and (row.owner == "user" or model.basis != "read"):
        whose = "your row of this model" if row.owner == "user" else "the catalogue's row of this model"
        return KnownParsers(row.parsers[engine], f"by {whose}", f"catalogue, models/{row.id}")
    dialect = dialect_of(model)
    parsers = dialect.parsers_of(engine, frozenset(model.dialogue_marks or ())) if dialect else None
    if dialect is None or parsers is None:
        return None
    sign = f"its chat template has {dialect.marks[0]}" if dialect.marks else f"it is a {model.architecture.name}"
    return KnownParsers(parsers, sign, f"catalogue, dialects/{dialect.id}")


def parser_settings(case: FlagCase, engine: str) -> Iterator[Setting]:
    """Flags of the same name in vLLM and SGLang."""
    known = parsers_of(case, engine)
    if known is None:
        return
    tool, reasoning = known.parsers.tool, known.parsers.reasoning
    if tool:
        reason = f"reads this model's tool calls: {known.why}"
        yield Setting(name="--tool-call-parser", value=tool, reason=reason, source=known.source)
    if reasoning:
        reason = f"separates thinking from the answer: {known.why}"
        yield Setting(name="--reasoning-parser", value=reasoning, reason=reason, source=known.source)


def agent_notes(case: FlagCase, engine: str, what_happens: str) -> Iterator[str]:
    """What is missing for agents, and what to try."""
    known = parsers_of(case, engine)
    if known is not None and known.parsers.tool:
        return
    if case.model.basis == "read":
        lack = f"Agents will not work: no tool-call parser is known for this model ({_seen(case.model)})"
    else:
        lack = f"Agents may not work: no tool-call parser is known before its files are read ({case.model.name})"
    yield (
        f"{lack}, and without one {what_happens}. "
        "Try --tool-call-parser with a name that this engine has, in the recipe (upright render MODEL -o recipe.yaml, "
        "then upright up recipe.yaml); a row of your own among the catalogue's dialects; or a GGUF of it on llama.cpp, "
        "which reads calls by the chat template."
    )


def doubt_notes(case: FlagCase, engine: str) -> Iterator[str]:
    """What was seen to go wrong with this model's calls on this engine."""
    dialect = dialect_of(case.model) or _named_dialect(case)
    if dialect is not None and (doubt := dialect.doubts.get(engine)):
        yield f"Tool calls: {doubt}. Prove them before an agent relies on them: upright prove --to tools."


def _named_dialect(case: FlagCase) -> DialectRow | None:
    """Of a model that is only a name: the dialect whose parsers its row has."""
    if case.model.basis == "read" or case.row is None:
        return None
    rows = cast("Iterable[DialectRow]", rows_of("dialects").values())
    parsers = case.row.parsers.items()
    return next((row for row in rows if any(row.parsers.get(name) == known for name, known in parsers)), None)


def template_notes(case: FlagCase) -> Iterator[str]:
    """For engines that read calls by the artifact's own template."""
    model = case.model
    if model.basis != "read" or _TOOLS in (model.dialogue_marks or ()):
        return
    lack = "its chat template does not mention tools" if model.chat_template else "it brings no chat template"
    yield (
        f"Agents may not work: {lack}, so that the model is told of tools in the engine's words at best. Prove it "
        "(upright prove --to tools), or give it a template that knows tools (--chat-template-file in the recipe)."
    )


def _seen(model: Model) -> str:
    name = model.architecture.name
    if model.dialogue_marks is None:
        return f"{name}, without a chat template"
    return f"{name}; its chat template has no marks of tool calls that the catalogue knows"
