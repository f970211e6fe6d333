"""What the catalogue plans on a bundle's machine as it stands, a line a plan: in a process of its own, for two looks.

python scripts/admitting/plans.py BUNDLE
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from upright.base.errors import UprightError  # noqa: E402
from upright.evidence.share.opening import open_bundle  # noqa: E402
from upright.evidence.share.verifying import read_claim  # noqa: E402
from upright.facts.records.box import Box  # noqa: E402
from upright.facts.records.model import Model  # noqa: E402
from upright.facts.records.plan import Goal, Plan  # noqa: E402
from upright.planning.requests.library import plan  # noqa: E402

SAMPLE = ("gpt-oss-120b", "minimax-m2.5", "glm-5.1", "kimi-k2.6")
"""Planned beside the bundle's own model: of these none should move but by its constants."""


def plan_lines(bundle: Path) -> list[str]:
    """As the catalogue on the disk gives them now: rows are read once a process."""
    done = subprocess.run([sys.executable, __file__, str(bundle)], stdout=subprocess.PIPE, encoding="utf-8", check=True)
    return done.stdout.splitlines()


def _lines(path: Path) -> Iterator[str]:
    claim = read_claim(open_bundle(path).statement)
    own, done, box = claim.of(Model), claim.of(Plan), claim.of(Box)
    if own is None or done is None or box is None:
        return
    yield _line(own, own.name, box, done.engine, done.goal)
    for name in SAMPLE:
        yield _line(name, name, box, done.engine, Goal())


def _line(model: str | Model, name: str, box: Box, engine: str, goal: Goal) -> str:
    try:
        found = next((each for each in plan(model, box, goal) if each.engine == engine and each.fits), None)
    except UprightError as error:
        return f"{name}, {engine}: {error.message}"
    if found is None:
        return f"{name}, {engine}: does not fit"
    if found.speed is None or found.speed.full is None:
        return f"{name}, {engine}: speed not known"
    rate = found.speed.full
    return f"{name}, {engine}: {rate.low:,.1f} to {rate.high:,.1f} tok/s, {found.speed.basis}, speeds/{found.speed.row}"


if __name__ == "__main__":
    print("\n".join(_lines(Path(sys.argv[1]))))
