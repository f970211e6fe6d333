"""`upright --help` against the interpreter's own start, side by side in one run; and what no start may bring along."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

LIMIT = 8
FACTS = Path(__file__).parents[2] / "src/upright/facts"
UNWANTED = {"asyncio", "http", "rich"}
PLAN = """
import sys
from upright.__main__ import main
sys.argv[1:] = ["plan", "kimi-k2.6", "--box", "8x-rtx-pro-6000-server"]
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


@pytest.mark.timing
def test_help_takes_at_most_eight_times_the_interpreters_start(capsys):
    bare, helping = [sys.executable, "-c", "pass"], [sys.executable, "-m", "upright", "--help"]
    timings: dict[str, list[float]] = {"bare": [], "help": []}
    for _ in range(15):  # interleaved, so that a busy machine slows both
        timings["bare"].append(seconds(bare))
        timings["help"].append(seconds(helping))
    ratio = min(timings["help"]) / min(timings["bare"])
    with capsys.disabled():
        print(f"\nupright --help: {ratio:.1f}x of `python -c pass` (limit {LIMIT}x)")
    assert ratio <= LIMIT


def test_a_plan_imports_nothing_heavy_that_it_does_not_use():
    done = subprocess.run([sys.executable, "-c", PLAN], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert "upright.planning.choosing.table" in loaded
    assert not loaded & UNWANTED


@pytest.mark.parametrize("room", ["records", "catalog/rows"])
def test_records_and_rows_do_not_postpone_annotations(room):
    """Pydantic compiles a postponed one again at every start."""
    modules = sorted((FACTS / room).glob("*.py"))
    assert len(modules) > 10
    assert not [module.name for module in modules if "from __future__ import annotations" in module.read_text()]


def seconds(argv: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(argv, capture_output=True, check=True)
    return time.perf_counter() - began
