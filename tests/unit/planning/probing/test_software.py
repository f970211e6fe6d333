"""A podman that is there, one that is busy, one that is broken, and none."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from upright.base.host import LocalHost
from upright.facts.records.box import ContainerRuntime
from upright.planning.probing.software import QUESTIONS, read_containers

BUSY = "exec sleep 60"
BROKEN = 'echo "Error: open /etc/subuid: permission denied" >&2; exit 125'


def asked(folder: Path, monkeypatch: pytest.MonkeyPatch, info: str | None) -> tuple[ContainerRuntime, ...]:
    """What is said of a machine whose `podman info` does this; the wait for one that is busy is cut short."""
    for tool in ("sh", "sleep", "timeout"):
        (folder / tool).symlink_to(shutil.which(tool) or "")
    if info is not None:
        podman = folder / "podman"
        podman.write_text(f"#!/bin/sh\ncase $1 in version) echo 5.8.0;; info) {info};; esac\n")
        podman.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    words = [word.replace("timeout 5", "timeout 0.3") for word in QUESTIONS["podman"]]
    return read_containers({"podman": LocalHost().run(words)})


@pytest.mark.parametrize("info", ["echo host", BUSY], ids=["answers", "is busy"])
def test_a_podman_that_works_is_usable_though_it_may_be_busy(
    info: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (found,) = asked(tmp_path, monkeypatch, info)
    assert (found.name, found.version, found.usable, found.problem) == ("podman", "5.8.0", True, None)


def test_a_broken_podman_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = asked(tmp_path, monkeypatch, BROKEN)
    assert (found.usable, found.problem) == (False, "Error: open /etc/subuid: permission denied")


def test_no_podman_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(tmp_path, monkeypatch, None) == ()
