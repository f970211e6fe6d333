"""Of all ways to get an engine the one that can be typed on this machine as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from upright.base.host import Result
from upright.facts.records.box import Box
from upright.planning.requests.engine_installs import install_methods, method_here
from upright.planning.requests.plan_arguments import NamedBox, box_named

X86, DEBIAN_12 = {"uname -m": "x86_64\n"}, {"getconf GNU_LIBC_VERSION": "glibc 2.36\n"}
KNOWN = {"apt-cache show llama.cpp-tools": "Package: llama.cpp-tools\n"}
UNKNOWN = {"apt-cache show llama.cpp-tools": ""}


class Machine:
    """Programs that are there, and what some say: as the systems themselves do."""

    name = "here"

    def __init__(self, programs: str, says: Mapping[str, str]) -> None:
        self._programs, self._says = programs.split(), says

    def which(self, program: str) -> str | None:
        return f"/usr/bin/{program}" if program in self._programs else None

    def run(self, argv: Sequence[str], *, timeout_seconds: float = 20) -> Result:
        told = self._says.get(" ".join(argv))
        return Result(127, "", "") if told is None else Result(0, told, "")

    def gather(self, commands: Sequence[Sequence[str]], *, timeout_seconds: float = 20) -> list[Result]:
        return [self.run(argv) for argv in commands]

    def read_text(self, path: str) -> str | None:
        return None


def without_gpu() -> Box:
    return box_named(NamedBox("1x-rtx-4090")).model_copy(update={"gpus": ()})


@pytest.mark.parametrize(
    ("programs", "says", "first"),
    [
        ("apt-cache", {**X86, **DEBIAN_12, **UNKNOWN}, "curl -L"),
        ("apt-cache", {**X86, "getconf GNU_LIBC_VERSION": "glibc 2.42\n", **KNOWN}, "sudo apt install llama.cpp-tools"),
        ("apt-cache brew", {**X86, **DEBIAN_12, **UNKNOWN}, "brew install"),
        ("dnf podman", {**X86, "getconf GNU_LIBC_VERSION": "glibc 2.41\n"}, "sudo dnf install"),
        ("yay", X86, "yay -S"),
        ("brew", {"uname -m": "arm64\n"}, "brew install"),
        ("podman", {**X86, "getconf GNU_LIBC_VERSION": "glibc 2.31\n"}, "podman pull"),
        ("conda", {"uname -m": "aarch64\n", **DEBIAN_12}, "conda install"),
    ],
    ids=["Debian 12", "Debian unstable", "brew on Debian", "Fedora", "Arch", "a Mac", "an old Ubuntu", "conda on ARM"],
)
def test_the_way_of_this_system(programs: str, says: Mapping[str, str], first: str):
    way = method_here(install_methods("llama.cpp", without_gpu()), Machine(programs, says))
    assert way is not None
    assert way.commands[0].startswith(first)


def test_where_nothing_can_be_typed_none_is_named():
    assert method_here(install_methods("llama.cpp", without_gpu()), Machine("", {"uname -m": "riscv64\n"})) is None
