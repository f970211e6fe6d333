"""Commands on catalogue data against `python -c pass`, side by side in one run: wall and processor time."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROUNDS = 7
BOX = ("--box", "8x-rtx-pro-6000-server")
# Each with the most empty Pythons that it may cost; importing pydantic alone takes nine.
COMMANDS = {
    "--help": (("--help",), 6),
    "plan": (("plan", "kimi-k2.6", *BOX), 25),
    "render": (("render", "kimi-k2.6", *BOX), 28),
    "compare": (("compare", "kimi-k2.6", "--box", "4x-rtx-pro-6000-server", *BOX), 35),
    "recommend": (("recommend", *BOX), 45),
}


@pytest.mark.slow
def test_commands_cost_few_empty_pythons(tmp_path):
    # As installed: with byte code, which some machines are told not to write.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env |= {
        "PYTHONPYCACHEPREFIX": str(tmp_path),
        "PYTHONPATH": str(ROOT / "src"),
        "UPRIGHT_HOME": str(tmp_path / "home"),
    }
    words = {"": ["-c", "pass"]} | {name: ["-m", "upright", *typed] for name, (typed, _) in COMMANDS.items()}
    for argv in words.values():
        spent(argv, env)
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in words}
    for _ in range(ROUNDS):  # interleaved, so that a busy machine slows all of them
        for name, argv in words.items():
            runs[name].append(spent(argv, env))
    best = {name: [min(figures) for figures in zip(*found, strict=True)] for name, found in runs.items()}
    beyond = []
    for name, (_, most) in COMMANDS.items():
        wall, cpu = (figure / bare for figure, bare in zip(best[name], best[""], strict=True))
        print(
            f"\nupright {name}: {wall:.1f}x of `python -c pass`, {cpu:.1f}x its processor time (limit {most}x)", end=""
        )
        # On a busy machine wall time measures the neighbours: an empty Python finds a free moment, a plan does not.
        if min(wall, cpu) > most:
            beyond.append(f"{name}: {min(wall, cpu):.1f}x, limit {most}x")
    assert not beyond


def spent(words, env):
    """Seconds on the wall and of processor time."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *words], env=env, capture_output=True, check=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
