"""`upright plan` on catalogue data is quick: wall time against `python -c pass`, side by side in one run."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIMIT = 25
ROUNDS = 7


@pytest.mark.slow
def test_a_plan_costs_at_most_25_times_an_empty_python(tmp_path):
    # As installed: with byte code, which some machines are told not to write.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env |= {
        "PYTHONPYCACHEPREFIX": str(tmp_path),
        "PYTHONPATH": str(ROOT / "src"),
        "UPRIGHT_HOME": str(tmp_path / "home"),
    }
    words = ["-m", "upright", "plan", "kimi-k2.6", "--box", "8x-rtx-pro-6000-server"]
    spent(words, env)
    bare = [spent(["-c", "pass"], env) for _ in range(ROUNDS)]
    plan = [spent(words, env) for _ in range(ROUNDS)]
    wall, cpu = (min(each[index] for each in plan) / min(each[index] for each in bare) for index in (0, 1))
    print(f"\nupright plan: {wall:.1f}x of `python -c pass`, {cpu:.1f}x its processor time (limit {LIMIT}x)")
    # On a busy machine wall time measures the neighbours: an empty Python finds a free moment, a plan does not.
    assert min(wall, cpu) <= LIMIT


def spent(words, env):
    """Seconds on the wall and of processor time."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *words], env=env, capture_output=True, check=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
