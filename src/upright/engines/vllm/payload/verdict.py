"""A raised exception -> whether vLLM refuses, in its own words, or nobody knows.

A refusal is a `raise` or an `assert` that stands in vLLM's own file. An exception that comes up by itself, in a
stand-in, in torch or in an import, says something of this place and nothing of the command; so does a sentence about a
package that is not here.
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import re
import traceback
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import FrameType, TracebackType
from typing import TypedDict

LONGEST = 1500
_NO_KERNELS = ("torchaudio", "torchvision", "torchcodec", "PyNvVideoCodec", "depyf", "compressed-tensors", "nvtx")
"""Pins of media and tools: no choice of a kernel looks for them."""
_OF_A_DRIVER = re.compile(r"-cu\d+$")
"""Libraries for one CUDA of several."""
_OF_IMPORTS = re.compile(r"ImportError|ModuleNotFoundError|OSError|No module named|[Ii]nstall|not installed", re.ASCII)
_OF_KERNELS = re.compile(r"backend|kernel|is not available|unavailable|not supported by your|support is required", re.I)
_PACKAGES = re.compile(
    r"flash.?infer|deep.?gemm|flash.?mla|flash.?attn|tilelang|cutlass|cute|humming|triton.?kernels|quack|tokenspeed",
    re.I,
)
_REASONS = re.compile(r"\w+: \[([^\]]*)\]")
"""Of each backend that was looked at, why it was not taken."""
_CHOOSERS = ("model_executor/layers/fused_moe/", "model_executor/kernels/")
"""Folders that try kernels until one can be had, and do not say why each could not."""
_OWN_WORDS = re.compile(r"skip.tokenizer.init|load.format|dummy", re.I)
"""What the stand-in adds to a command."""
_HERE = str(Path(__file__).parent)


class Raised(TypedDict):
    """What an exception says."""

    verdict: str
    why: str
    sentence: str
    file: str
    line: int


def missing_companions() -> list[str]:
    """What vLLM's own metadata pins for its kernels, and what these pin in turn, and is not here in that version."""
    try:
        wanted = importlib.metadata.requires("vllm") or []
    except importlib.metadata.PackageNotFoundError:
        return ["vllm's metadata"]
    if not wanted:
        return ["the companions of its build for CUDA, such as FlashInfer: this build names none"]
    lacking, seen = [], set()
    while wanted:
        line = wanted.pop()
        name, pin = re.match(r"([\w.-]+)(?:\[[^]]*\])?(?:==([\w.]+))?", line).groups()  # type: ignore[union-attr]
        if pin is None or name in seen or name in _NO_KERNELS or "extra ==" in line or "platform_machine ==" in line:
            continue
        seen.add(name)
        if _version(name) != pin and not _OF_A_DRIVER.search(name):
            lacking.append(f"{name} {pin}")
        elif _version(name) == pin:
            wanted += importlib.metadata.requires(name) or []
    return sorted(lacking)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name).partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return None


def judged(error: BaseException, lacking: list[str]) -> Raised:
    cause = _of_validation(error)
    frames = list(_frames(cause.__traceback__))
    sentence = " ".join(str(cause).split())[:LONGEST] or type(cause).__name__
    file, line = _place(frames)
    why = _doubt(cause, frames, sentence, lacking)
    if not str(cause).strip() and isinstance(cause, AssertionError):
        sentence = _source(frames) or sentence
    verdict = "not-known" if why else "refuses"
    return Raised(verdict=verdict, why=why, sentence=f"{type(cause).__name__}: {sentence}", file=file, line=line)


def _of_validation(error: BaseException) -> BaseException:
    """Pydantic hides what a validator raised."""
    errors = getattr(error, "errors", None)
    if callable(errors):
        for entry in errors():
            hidden = entry.get("ctx", {}).get("error")
            if isinstance(hidden, BaseException) and hidden.__traceback__ is not None:
                return hidden
    return error


def _doubt(error: BaseException, frames: list[tuple[FrameType, int]], sentence: str, lacking: list[str]) -> str:
    """Why this is no refusal; empty if it is one."""
    chain: BaseException | None = error
    while chain is not None:
        if isinstance(chain, ImportError | OSError):
            return f"an import failed here, not the command: {' '.join(str(chain).split())[:300]}"
        chain = chain.__cause__
    if not frames:
        return "nobody knows where it was raised"
    last, line = frames[-1]
    file = last.f_code.co_filename
    if _HERE in file:
        return "a stand-in raised it"
    if not file.startswith(_engine_folder()):
        return f"not vLLM's own words: raised in {'/'.join(Path(file).parts[-3:])}:{line}"
    if not _deliberate(file, line):
        return "no check of vLLM's: it failed under way, where a stand-in may have misled it"
    if (
        _import_test(sentence)
        or _OF_IMPORTS.search(sentence)
        or any(_says(sentence, name.split()[0]) for name in lacking)
    ):
        return "it depends on what could be imported here"
    if _OWN_WORDS.search(sentence):
        return "it speaks of what is asked here without files, not of the command"
    if any(folder in file for folder in _CHOOSERS):
        return "it chooses kernels by what could be imported here, and gives no reason for each"
    if lacking and _OF_KERNELS.search(sentence):
        return f"it chooses kernels, and of its companions these are not here: {', '.join(lacking)}"
    return ""


def _import_test(sentence: str) -> bool:
    """Whether a package may be all that is missing: of one backend at least, where each gives its reasons."""
    reasons = _REASONS.findall(sentence)
    if reasons:
        return any(all(_PACKAGES.search(part) for part in given.split(", ")) for given in reasons)
    return bool(_PACKAGES.search(sentence) and re.search(r"\brequires?\b|\bneeds?\b", sentence))


def _says(sentence: str, package: str) -> bool:
    stem = re.split(r"[-_]", package.lower())[0]
    return len(stem) > 4 and stem in sentence.lower()


def _frames(trace: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    yield from traceback.walk_tb(trace)


def _place(frames: list[tuple[FrameType, int]]) -> tuple[str, int]:
    """The innermost line of vLLM's own."""
    engine = _engine_folder()
    for frame, line in reversed(frames):
        if (file := frame.f_code.co_filename).startswith(engine):
            return f"vllm/{file.removeprefix(engine)}", line
    return "", 0


@cache
def _engine_folder() -> str:
    """An environment may itself be called vllm: only the package counts."""
    spec = importlib.util.find_spec("vllm")
    return f"{spec.submodule_search_locations[0]}/" if spec and spec.submodule_search_locations else "/nowhere/"


@cache
def _statements(file: str) -> tuple[tuple[int, int, str], ...]:
    try:
        source = Path(file).read_text()
        tree = ast.parse(source)
    except (OSError, SyntaxError):
        return ()
    return tuple(
        (node.lineno, node.end_lineno or node.lineno, ast.get_source_segment(source, node) or "")
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise | ast.Assert)
    )


def _deliberate(file: str, line: int) -> bool:
    return any(first <= line <= last for first, last, _ in _statements(file))


def _source(frames: list[tuple[FrameType, int]]) -> str:
    frame, line = frames[-1]
    for first, last, text in _statements(frame.f_code.co_filename):
        if first <= line <= last:
            return " ".join(text.split())[:LONGEST]
    return ""
