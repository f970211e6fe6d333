"""How an engine is proved before it is run: its own parser on a command line, and a start on no weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from upright.facts.records.recipe import Setting


@dataclass(frozen=True)
class ParserInPython:
    """The parser is asked in the interpreter that has the engine."""

    payload: PurePath
    """A file that runs there: `parser(attempt)` gives a function from words to a complaint, or None."""
    leads: tuple[str, ...] = ("serve",)
    """Words before the flags that are no flag's."""


@dataclass(frozen=True)
class ParserOfProgram:
    """The program parses everything and starts nothing, given these last words."""

    words: tuple[str, ...] = ("--version",)
    version: str = r"version:\s*(\S+)"
    """A pattern of what `--version` prints."""
    swaps: Mapping[str, str] = field(default_factory=dict)
    """Patterns in values that only another build understands -> what is judged in their place."""
    swapped_remark: str = ""


@dataclass(frozen=True)
class StartCode:
    """The engine's own start code is asked, in its interpreter, for a GPU that need not be there."""

    folder: PurePath
    """A package that runs there: `asking` reads questions and writes answers."""


Parser = ParserInPython | ParserOfProgram


@dataclass(frozen=True)
class DummyWeights:
    """It makes random weights of the real shapes, and captures graphs as it will."""

    setting: Setting


@dataclass(frozen=True)
class DryRun:
    """It prints its buffers without reading a tensor, and ends."""

    words: tuple[str, ...]
    without: tuple[str, ...] = ()
    """Flags to leave out."""
    not_proved: tuple[str, ...] = ()


@dataclass(frozen=True)
class Allocator:
    """A tool beside the engine's program that prints what it would put where; nothing is allocated."""

    tool: str
    takes: tuple[str, ...]
    """Flags of the recipe that it takes too."""
    words: tuple[str, ...]
    """What it is told beside the model."""
    row: str
    """A pattern of its table's rows: group `device`, and a group for each column of `terms`, in mebibytes."""
    terms: Mapping[str, str]
    """Columns -> terms of ours."""


@dataclass(frozen=True)
class HollowFile:
    """It starts on a file of holes with the real header, where the machine has memory for it."""

    setting: Setting
    allocator: Allocator | None = None
    """Asked first."""


Rehearsing = DummyWeights | DryRun | HollowFile


@dataclass(frozen=True)
class EngineProof:
    """What can be proved of an engine without weights."""

    parser: Parser | None = None
    """None: not known, recorded flags judge alone."""
    rehearsal: Rehearsing | None = None
    """None: not known, it cannot be rehearsed."""
    start_code: StartCode | None = None
    """None: nobody wrote a GPU that is not there for it."""


def in_python(engine_file: str, stand_in: str = "") -> EngineProof:
    """Of an engine in Python: its parser by `parser.py` beside that file, dummy weights, and a GPU's stand-in."""
    dummy = Setting(
        name="--load-format",
        value="dummy",
        reason="random weights of the real shapes: nothing is downloaded, memory and kernels are as they will be",
    )
    beside = PurePath(engine_file)
    start_code = StartCode(beside.with_name(stand_in)) if stand_in else None
    return EngineProof(ParserInPython(beside.with_name("parser.py")), DummyWeights(dummy), start_code)
