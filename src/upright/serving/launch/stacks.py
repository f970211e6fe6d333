"""What the processes of an engine that hangs wait for, kept as evidence before they are ended.

py-spy shows Python's frames where it is installed; the kernel says of every process whether it was stopped from
outside, waits in a driver, or computes.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from upright.base.bounds.files import file_text
from upright.base.untrusted_text import on_one_line
from upright.facts.records.deployment import Process
from upright.serving.launch.processes import members

FILE = "stacks.txt"
_MOST_PROCESSES = 16
_MOST_THREADS = 64
_MOST_CHARACTERS = 200_000
_DUMP_SECONDS = 10.0
_STATES = {
    "T": "is stopped by a signal (SIGSTOP)",
    "t": "is held by a debugger",
    "D": "waits in the kernel, where no signal reaches it",
    "R": "computes",
    "S": "sleeps",
}


def process_states(led_by: Process) -> list[str]:
    """`process 271 (llama-server) is stopped by a signal (SIGSTOP)`: what tells most comes first."""
    states = [(pid, *_state(pid)) for pid in members(led_by)[:_MOST_PROCESSES]]
    order = list(_STATES)
    known = sorted((entry for entry in states if entry[2] in _STATES), key=lambda entry: order.index(entry[2]))
    return [f"process {pid} ({name}) {_STATES[letter]}" for pid, name, letter in known]


def dump(led_by: Process, into: Path) -> None:
    """Everything that can be seen of the group, for people."""
    parts = []
    for pid in members(led_by)[:_MOST_PROCESSES]:
        name, letter = _state(pid)
        parts += [f"# process {pid} ({name}): {_STATES.get(letter, letter)}", _python_frames(pid), _kernel_waits(pid)]
    into.write_text("\n".join(filter(None, parts))[:_MOST_CHARACTERS] + "\n", encoding="utf-8")


def _state(pid: int) -> tuple[str, str]:
    try:
        before, _, after = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")
    except OSError:
        return "gone", "X"
    return on_one_line(before.partition("(")[2], 32), after.split()[0]


def _python_frames(pid: int) -> str:
    program = shutil.which("py-spy")
    if program is None:
        return ""
    command = [program, "dump", "--nonblocking", "--pid", str(pid)]
    try:
        dumped = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", timeout=_DUMP_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return dumped.stdout[: _MOST_CHARACTERS // 4] if dumped.returncode == 0 else ""


def _kernel_waits(pid: int) -> str:
    """Thread by thread: its name, its state, and the kernel's function that it waits in, where that may be read."""
    waits = []
    for task in sorted(Path(f"/proc/{pid}/task").glob("[0-9]*"))[:_MOST_THREADS]:
        try:
            before, _, after = file_text(task / "stat", errors="replace").rpartition(")")
            place = file_text(task / "wchan", errors="replace").strip("0 \n")
        except OSError:
            continue
        name = on_one_line(before.partition("(")[2], 32)
        waits.append(f"  thread {task.name} ({name}) {after.split()[0]} {place}".rstrip())
    return "\n".join(waits)
