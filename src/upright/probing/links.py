"""nvidia-smi topo -> the way between every pair of GPUs."""

from __future__ import annotations

import re

from upright.probing.questions import Answers, told
from upright.records.box import Link

QUESTIONS = {
    "topology": ("nvidia-smi", "topo", "-m"),
    "peer-access": ("nvidia-smi", "topo", "-p2p", "r"),
}

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_GPU = re.compile(r"GPU(\d+)$")
_NIC = re.compile(r"NIC\d+$")

Matrix = dict[tuple[int, int], str]


def read_links(answers: Answers) -> tuple[Link, ...]:
    paths = matrix(told(answers, "topology") or "")
    peers = matrix(told(answers, "peer-access") or "")
    return tuple(
        Link(a=a, b=b, path=path, peer_access=peers.get((a, b))) for (a, b), path in sorted(paths.items()) if a < b
    )


def matrix(text: str) -> Matrix:
    """Both matrices have GPUs first, in rows and in columns; what follows is NICs and affinities."""
    lines = [_COLOUR.sub("", line).split() for line in text.splitlines()]
    header = next((line for line in lines if line and _GPU.match(line[0]) and "X" not in line), [])
    columns = [int(match[1]) for match in map(_GPU.match, header) if match]
    cells: Matrix = {}
    for line in lines:
        label = _GPU.match(line[0]) if line else None
        if label is None or line is header:
            continue
        for column, cell in zip(columns, line[1:], strict=False):
            if cell != "X":
                cells[int(label[1]), column] = cell
    return cells


def numa_affinities(answers: Answers) -> dict[int, int]:
    """The column `NUMA Affinity`, for machines whose sysfs does not say."""
    lines = [_COLOUR.sub("", line).split() for line in (told(answers, "topology") or "").splitlines()]
    header = next((line for line in lines if line and _GPU.match(line[0]) and "X" not in line), [])
    devices = sum(1 for word in header if _GPU.match(word) or _NIC.match(word))
    found: dict[int, int] = {}
    for line in lines:
        label = _GPU.match(line[0]) if line else None
        if label and "X" in line and len(line) > devices + 2 and line[devices + 2].isdecimal():
            found[int(label[1])] = int(line[devices + 2])
    return found
