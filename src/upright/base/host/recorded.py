"""A folder of recorded answers <-> a Host.

One text file per command, and `recording.json` that says which is which: people can read it, attach it, and cut it.
A command is found again by its words without the values of its options, a script by its label, so that a recording
made by an older version still answers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from upright.base.bounds.bounded_json import parse_json
from upright.base.bounds.files import file_bytes, file_text
from upright.base.errors import HostError
from upright.base.host.contract import COULD_NOT_START, Host, Result, which_argv

INDEX = "recording.json"
FORMAT = 1
_FILE = re.compile(r"\d{2,}-.*\.(?:out|err)\.txt")


class RecordedHost:
    """Answers from a recording; a command that is not in it could not be started."""

    def __init__(self, folder: Path) -> None:
        index = _index(folder)
        self.name = str(index.get("name") or folder.name)
        self.synthetic = bool(index.get("synthetic", False))
        self.note = str(index.get("note", ""))
        self._answers = {signature(entry["argv"]): _answer(folder, entry) for entry in index["commands"]}

    def run(self, argv: Sequence[str], *, timeout_seconds: float = 20) -> Result:
        missing = Result(COULD_NOT_START, "", "not in this recording")
        return self._answers.get(signature(argv), missing)

    def gather(self, commands: Sequence[Sequence[str]], *, timeout_seconds: float = 20) -> list[Result]:
        return [self.run(argv) for argv in commands]

    def read_text(self, path: str) -> str | None:
        reply = self.run(["cat", path])
        return reply.out if reply.ok else None

    def which(self, program: str) -> str | None:
        reply = self.run(which_argv(program))
        return reply.out.strip() if reply.ok else None


class RecordingHost:
    """Another host, with everything it answers kept for `save`."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._kept: dict[tuple[str, ...], tuple[list[str], Result]] = {}

    @property
    def name(self) -> str:
        return self._host.name

    def run(self, argv: Sequence[str], *, timeout_seconds: float = 20) -> Result:
        return self._keep(argv, self._host.run(argv, timeout_seconds=timeout_seconds))

    def gather(self, commands: Sequence[Sequence[str]], *, timeout_seconds: float = 20) -> list[Result]:
        results = self._host.gather(commands, timeout_seconds=timeout_seconds)
        return [self._keep(argv, reply) for argv, reply in zip(commands, results, strict=True)]

    def read_text(self, path: str) -> str | None:
        text = self._host.read_text(path)
        self._keep(["cat", path], Result(1, "", "") if text is None else Result(0, text, ""))
        return text

    def which(self, program: str) -> str | None:
        path = self._host.which(program)
        self._keep(which_argv(program), Result(1, "", "") if path is None else Result(0, f"{path}\n", ""))
        return path

    def save(self, folder: Path, redact: Callable[[str], str], *, made_by: str) -> int:
        """Writes the recording, every text and every argument through `redact`; returns the number of commands."""
        answers = [([redact(word) for word in argv], reply) for argv, reply in self._kept.values()]
        redacted = [(argv, Result(reply.code, redact(reply.out), redact(reply.err))) for argv, reply in answers]
        write_recording(folder, redacted, name=redact(self.name), made_by=made_by)
        return len(redacted)

    def _keep(self, argv: Sequence[str], result: Result) -> Result:
        self._kept[signature(argv)] = (list(argv), result)
        return result


def write_recording(
    folder: Path,
    answers: Sequence[tuple[Sequence[str], Result]],
    *,
    name: str,
    made_by: str,
    synthetic: bool = False,
    note: str = "",
) -> None:
    """A recording on disk: the index and one file per stream that said something."""
    entries = []
    try:
        _clear(folder)
        for number, (argv, reply) in enumerate(answers):
            entry: dict[str, Any] = {"argv": list(argv), "code": reply.code}
            for stream, text in (("out", reply.out), ("err", reply.err)):
                if text:
                    entry[stream] = f"{number:02d}-{_label(argv)}.{stream}.txt"
                    (folder / entry[stream]).write_text(text, encoding="utf-8")
            entries.append(entry)
        index = {"format": FORMAT, "name": name, "made_by": made_by, "synthetic": synthetic, "note": note}
        (folder / INDEX).write_text(json.dumps({**index, "commands": entries}, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise HostError(f"cannot write the recording to {folder}: {error.strerror}") from None


def _clear(folder: Path) -> None:
    """A folder of its own: an earlier recording in it goes, and anything else there is refused."""
    folder.mkdir(parents=True, exist_ok=True)
    there = list(folder.iterdir())
    ours = [path for path in there if path.name == INDEX or _FILE.fullmatch(path.name)]
    if len(ours) != len(there):
        raise HostError(f"{folder} holds other files: a recording wants a folder of its own", hint="name a new folder")
    for path in ours:
        path.unlink()


def signature(argv: Sequence[str]) -> tuple[str, ...]:
    """What a recording knows a command by."""
    if len(argv) >= 4 and argv[1] == "-c":
        return (argv[0], *argv[3:])
    return tuple(word.partition("=")[0] if word.startswith("--") else word for word in argv)


def _label(argv: Sequence[str]) -> str:
    label_parts = [word.rpartition("/")[2] or word for word in signature(argv)]
    label_parts = label_parts[1:] if label_parts[0] in ("sh", "cat") else label_parts
    return re.sub(r"[^A-Za-z0-9.]+", "-", "-".join(label_parts)).strip("-")[:48] or "command"


def _index(folder: Path) -> dict[str, Any]:
    try:
        index = parse_json(file_bytes(folder / INDEX))
    except OSError as error:
        raise HostError(f"{folder} is not a recording: {INDEX}: {error.strerror}") from None
    except ValueError as error:
        raise HostError(f"{folder / INDEX} is not JSON: {error}") from None
    if not isinstance(index, dict) or index.get("format") != FORMAT or not isinstance(index.get("commands"), list):
        raise HostError(
            f"{folder / INDEX} is not a recording of format {FORMAT}", hint="upright probe --record DIR makes one"
        )
    return index


def _answer(folder: Path, entry: dict[str, Any]) -> Result:
    texts = {stream: _stream(folder, entry.get(stream)) for stream in ("out", "err")}
    return Result(int(entry.get("code", 0)), **texts)


def _stream(folder: Path, name: str | None) -> str:
    if name is None:
        return ""
    if Path(name).name != name:
        raise HostError(f"{folder / INDEX} names a file outside the recording: {name}")
    try:
        return file_text(folder / name, errors="replace")
    except OSError as error:
        raise HostError(f"{folder / name}: {error.strerror}") from None
