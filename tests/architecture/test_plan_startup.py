"""`upright plan` on catalogue data is quick: wall time against `python -c pass`, side by side in one run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIMIT = 25
ROUNDS = 7


def test_a_plan_costs_at_most_25_times_an_empty_python(tmp_path):
    # As installed: with byte code, which some machines are told not to write.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env |= {
        "PYTHONPYCACHEPREFIX": str(tmp_path),
        "PYTHONPATH": str(ROOT / "src"),
        "UPRIGHT_HOME": str(tmp_path / "home"),
    }
    words = ["-m", "upright", "plan", "kimi-k2.6", "--box", "8x-rtx-pro-6000-server"]
    seconds(words, env)
    pairs = [(seconds(["-c", "pass"], env), seconds(words, env)) for _ in range(ROUNDS)]
    ratio = min(plan for _, plan in pairs) / min(bare for bare, _ in pairs)
    print(f"\nupright plan: {ratio:.1f}x of `python -c pass` (limit {LIMIT}x)")
    assert ratio <= LIMIT


def seconds(words, env):
    start = time.perf_counter()
    subprocess.run([sys.executable, *words], env=env, capture_output=True, check=True)
    return time.perf_counter() - start
