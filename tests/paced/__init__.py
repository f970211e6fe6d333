"""Real engines with a device that takes its time.

On two shared cores an engine's speed changes by a fifth from one minute to the next, and a client takes some of it.
What is not about the engine's speed is better measured on an engine that waits, as one with a GPU does: here a step
computes as always, and ends when a device of a known speed would be done. All else is the engine's own. One thread
each: two that wait for each other stand still whenever a client has one of the cores.
"""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

HERE = Path(__file__).parent


def paced_llama_server(server: Path, folder: Path, *, step_ms: float, token_ms: float) -> Path:
    """A program in that folder which is this server on one thread, preloaded with device.c."""
    folder.mkdir(exist_ok=True)
    device = folder / "device.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", device, HERE / "device.c"], check=True)
    program = folder / server.name
    _write(program, server, [*_pace(step_ms, token_ms), f"LD_PRELOAD={device}"], ["-t", "1", "-tb", "1"])
    return program


def paced_vllm(vllm: Path, folder: Path, *, step_ms: float, token_ms: float) -> Path:
    """A program in that folder which is this vLLM on one thread, with the plugin in vllm/; its python3 comes along."""
    folder.mkdir(exist_ok=True)
    settings = [*_pace(step_ms, token_ms), f"PYTHONPATH={HERE / 'vllm'}"]
    settings += ["OMP_NUM_THREADS=1", "VLLM_CPU_OMP_THREADS_BIND=nobind"]
    for name in (vllm.name, "python3"):
        _write(folder / name, vllm.with_name(name), settings, [])
    return folder / vllm.name


def _pace(step_ms: float, token_ms: float) -> list[str]:
    return [f"UPRIGHT_STEP_US={1000 * step_ms:.0f}", f"UPRIGHT_TOKEN_US={1000 * token_ms:.0f}"]


def _write(path: Path, real: Path, settings: list[str], more: list[str]) -> None:
    words = shlex.join(["env", *settings, str(real)])
    path.write_text(f'#!/bin/sh\nexec {words} "$@" {shlex.join(more)}\n')
    path.chmod(0o755)
