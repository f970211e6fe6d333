"""Steps of five field reports -> what their commands print today, and whether it is what the reports say."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from click.testing import CliRunner

from upright.app.cli.main import cli
from upright.base.yaml12 import from_yaml

ROOT = Path(__file__).resolve().parents[2]
FILE = Path(__file__).with_name("field_steps.yaml")
VERDICTS = ("yes", "partly", "by hand", "not")
_LINKED = {
    "published": ROOT / "docs/examples",
    "recording": ROOT / "tests/recordings/boxes/synthetic-8x-rtx-pro-6000-server",
}
_TEST = re.compile(r"(tests/[\w/]+\.py)::(test_\w+)")


@dataclass(frozen=True)
class FieldStep:
    """One step that somebody took, and how it is done with Upright."""

    step: int
    report: str
    did: str
    verdict: str
    run: tuple[str, ...] = ()
    exit: int = 0
    shows: tuple[str, ...] = ()
    hides: tuple[str, ...] = ()
    ours: str | None = None
    theirs: str | None = None
    holds: float | None = None
    near: float | None = None
    percent: float = 0.0
    within: tuple[float, float] | None = None
    type: str | None = None
    test: str | None = None
    ours_there: str | None = None
    why: str | None = None

    @property
    def commands(self) -> tuple[str, ...]:
        """As a person types them."""
        return (self.type,) if self.type else tuple(f"upright {words}" for words in self.run)

    def figure(self) -> str | None:
        """Ours, as it is printed today."""
        return self.ours_there or (found[0].strip() if (found := self._found()) else None)

    def named_test(self) -> tuple[Path, str] | None:
        """File and name of the test that does it on a real engine, or on a release's own files."""
        found = _TEST.fullmatch(self.test) if self.test else None
        return (ROOT / found[1], found[2]) if found else None

    def complaints(self) -> list[str]:
        """What the commands do not print though the page says it; empty where all is as stated."""
        if not self.run:
            return []
        code, output = printed(self.run)
        said = [f"ended with {code}, not {self.exit}: {output}"] if code != self.exit else []
        said += [f"does not print {each!r}" for each in self.shows if not _stands(each, output)]
        said += [f"prints {each!r}" for each in self.hides if _stands(each, output)]
        if self.ours is None:
            return said
        if (found := self._found()) is None:
            return [*said, f"has no figure like {self.ours}"]
        return said + ([] if self._agrees(found) else [f"{found[0]} against {self.theirs}"])

    def _found(self) -> re.Match[str] | None:
        return re.search(self.ours, printed(self.run)[1]) if self.ours and self.run else None

    def _agrees(self, found: re.Match[str]) -> bool:
        """Their figure in our band, or ours beside theirs; a sum where there are several."""
        if self.holds is not None:
            return float(found["low"]) <= self.holds <= float(found["high"])
        ours = sum(float(each.replace(",", "")) for each in found.groups())
        if self.within is not None:
            return self.within[0] <= ours <= self.within[1]
        return self.near is None or abs(ours / self.near - 1) <= self.percent / 100


@dataclass(frozen=True)
class FieldWeek:
    """The commands of one report in their order, and what no command does."""

    report: str
    commands: tuple[str, ...]
    by_hand: tuple[str, ...]


@cache
def stated() -> dict[str, Any]:
    content: dict[str, Any] = from_yaml(FILE.read_text(encoding="utf-8"))
    return content


def steps() -> Iterator[FieldStep]:
    for row in stated()["steps"]:
        yield FieldStep(**{name: tuple(value) if isinstance(value, list) else value for name, value in row.items()})


def weeks() -> Iterator[FieldWeek]:
    for row in stated()["weeks"]:
        yield FieldWeek(row["report"], tuple(row["commands"]), tuple(row["by_hand"]))


@cache
def printed(commands: tuple[str, ...]) -> tuple[int, str]:
    """The last exit code, and all that was printed as one line."""
    with TemporaryDirectory() as folder:
        for name, target in _LINKED.items():
            (Path(folder) / name).symlink_to(target)
        environment = {"UPRIGHT_HOME": f"{folder}/home", "COLUMNS": "100", "NO_COLOR": "1"}
        code, lines = 0, []
        with chdir(folder):
            for words in commands:
                done = CliRunner().invoke(cli, shlex.split(words), env=environment, prog_name="upright")
                code = done.exit_code
                lines.append(done.output)
    return code, " ".join("\n".join(lines).split())


def _stands(text: str, output: str) -> bool:
    return re.search(".*".join(map(re.escape, text.split("…"))), output) is not None
