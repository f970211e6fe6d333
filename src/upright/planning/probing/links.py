"""nvidia-smi topo -> the way between every pair of GPUs."""

from __future__ import annotations

import re

from upright.facts.records.box import Link
from upright.planning.probing.questions import Answers, output_of

QUESTIONS = {
    "topology": ("nvidia-smi", "topo", "-m"),
    "peer-access": ("nvidia-smi", "topo", "-p2p", "r"),
}

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_GPU = re.compile(r"GPU(\d+)$")
_NIC = re.compile(r"NIC\d+$")

Matrix = dict[tuple[int, int], str]


def read_links(answers: Answers) -> tuple[Link, ...]:
    paths = matrix(output_of(answers, "topology") or "")
    peers = matrix(output_of(answers, "peer-access") or "")
    return tuple(
        Link(a=a, b=b, path=path, peer_access=peers.get((a, b))) for (a, b), path in sorted(paths.items()) if a < b
    )


def matrix(text: str) -> Matrix:
    """Both matrices have GPUs first, in rows and in columns; what follows is NICs and affinities."""
    header, lines = _table(text)
    columns = [int(match[1]) for match in map(_GPU.match, header) if match]
    return {
        (gpu, column): cell
        for gpu, cells in lines.items()
        for column, cell in zip(columns, cells, strict=False)
        if cell != "X"
    }


def numa_affinities(answers: Answers) -> dict[int, int]:
    """The column `NUMA Affinity`, for machines whose sysfs does not say: the second after the devices."""
    header, lines = _table(output_of(answers, "topology") or "")
    place = 1 + sum(1 for word in header if _GPU.match(word) or _NIC.match(word))
    return {gpu: int(cells[place]) for gpu, cells in lines.items() if len(cells) > place and cells[place].isdecimal()}


def _table(text: str) -> tuple[list[str], dict[int, list[str]]]:
    """The words of the header, and of each GPU's row without its label."""
    lines = [cells for line in text.splitlines() if (cells := _COLOUR.sub("", line).split()) and _GPU.match(cells[0])]
    header = next((cells for cells in lines if "X" not in cells), [])
    return header, {int(cells[0][3:]): cells[1:] for cells in lines if cells is not header}
