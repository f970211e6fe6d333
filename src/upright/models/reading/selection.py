"""Names of a directory or repository -> the files of one artifact.

Only names decide; no file's content can add a file, so nothing outside the directory is ever opened.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from upright.base.errors import ReadError

_SPLIT = re.compile(r"(?P<base>.+)-(?P<part>\d{5})-of-(?P<parts>\d{5,6})\.(gguf|safetensors)")
_NOT_THE_MODEL = re.compile(r"(.*/)?(mmproj|imatrix|consolidated|adapter_model|training_args|optimizer)[^/]*")
_MOST_PARTS = 2000
CONFIG = "config.json"


@dataclass(frozen=True)
class FileSelection:
    """The files to read, in order."""

    format: Literal["gguf", "safetensors", "config"]
    """`config` if there are no weights, only a configuration: sizes are derived from it."""
    files: tuple[str, ...]

    @property
    def engine_name(self) -> str:
        """What an engine is told, below the folder: the first GGUF file, or the folder itself."""
        return self.files[0] if self.format == "gguf" else ""


def choose(names: Iterable[str], quant: str | None, where: str) -> FileSelection:
    """`quant` picks among the GGUF files of a repository, as in `repo:IQ3_K`."""
    usable = sorted(name for name in names if not _NOT_THE_MODEL.fullmatch(name))
    weights = [name for name in usable if name.endswith(".safetensors") and "/" not in name]
    artifacts = _by_artifact(name for name in usable if name.endswith(".gguf"))
    if quant is not None:
        base = _match(artifacts, quant, where)
        return FileSelection("gguf", _complete(artifacts[base], where))
    if weights:
        files = [name for base_files in _by_artifact(weights).values() for name in _complete(base_files, where)]
        return FileSelection("safetensors", tuple(files))
    if len(artifacts) == 1:
        (files,) = artifacts.values()
        return FileSelection("gguf", _complete(files, where))
    if artifacts:
        raise ReadError(f"{where} has {len(artifacts)} quantisations", hint=f"name one: {where}:{_tags(artifacts)}")
    if CONFIG in usable and not _has_pickles(usable):
        return FileSelection("config", (CONFIG,))
    raise ReadError(f"{where} has no safetensors and no GGUF files", hint=_other_weights(usable))


def parts_of(name: str) -> list[str] | None:
    """All names of the split that this file is a part of; None if it stands alone."""
    split = _SPLIT.fullmatch(name)
    if split is None:
        return None
    parts = int(split["parts"])
    if not 1 <= parts <= _MOST_PARTS:
        raise ReadError(f"{name} claims to be one of {parts} files; refused")
    ending = name[split.end("parts") :]
    return [f"{split['base']}-{part:05d}-of-{split['parts']}{ending}" for part in range(1, parts + 1)]


def _by_artifact(names: Iterable[str]) -> dict[str, list[str]]:
    artifacts: dict[str, list[str]] = {}
    for name in names:
        split = _SPLIT.fullmatch(name)
        artifacts.setdefault(split["base"] if split else name.rpartition(".")[0], []).append(name)
    return artifacts


def _complete(files: list[str], where: str) -> tuple[str, ...]:
    wanted = parts_of(files[0])
    if wanted is None:
        return tuple(files)
    missing = sorted(set(wanted) - set(files))
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ReadError(f"{where} is not complete: {missing[0]}{more} missing", hint="download the missing files")
    return tuple(wanted)


def _match(artifacts: dict[str, list[str]], quant: str, where: str) -> str:
    """The artifact whose folder or name ends with the quant; the shortest name if several do."""
    wanted = quant.lower()
    matching = [base for base in artifacts if re.search(rf"(^|[-./]){re.escape(wanted)}$", base.lower())]
    matching += [base for base in artifacts if f"/{base.lower()}".rsplit("/", 2)[-2] == wanted and base not in matching]
    if not matching:
        raise ReadError(f"{where} has no quantisation {quant}", hint=f"it has {_tags(artifacts) or 'no GGUF files'}")
    return min(matching, key=lambda base: (len(base.rsplit("/", 1)[-1]), base))


def _tags(artifacts: dict[str, list[str]]) -> str:
    names = [base.rsplit("/", 1)[-1] for base in artifacts]
    common = _common_start(names) if len(names) > 1 else ""
    tags = sorted({name[len(common) :] or name for name in names})
    return ", ".join(tags[:20]) + (", ..." if len(tags) > 20 else "")


def _common_start(names: list[str]) -> str:
    start = min(names)
    while start and not all(name.startswith(start) for name in names):
        start = start[:-1]
    return start[: start.rfind("-") + 1]


def _has_pickles(names: Iterable[str]) -> bool:
    return any(name.endswith((".bin", ".pt", ".pth")) for name in names)


def _other_weights(names: Iterable[str]) -> str:
    if _has_pickles(names):
        return "its weights are pickles, which upright does not open; look for a safetensors or GGUF version"
    return "name a model's repository, its directory, or a file"
