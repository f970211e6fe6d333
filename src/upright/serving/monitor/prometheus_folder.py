"""Writes the files of a monitoring setup, and checks them with promtool."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from upright.base.bounds.files import file_bytes
from upright.base.errors import UsageError
from upright.base.host import LocalHost
from upright.facts.store import resolve_inside, write_inside


def write_files(folder: Path, files: Mapping[str, str]) -> list[str]:
    """Files of an earlier call whose target is gone are removed: Prometheus would go on asking for it.

    What it gives back has changed since that call, and Prometheus does not read it again by itself.
    """
    changed = []
    try:
        for path, text in files.items():
            file = resolve_inside(folder / path, folder)
            if path.startswith(("prometheus.yml", "rules/")) and file.exists() and file_bytes(file) != text.encode():
                changed.append(path)
            write_inside(file, text, folder)
        for old in (folder / "targets").glob("upright*.json"):
            if f"targets/{old.name}" not in files:
                old.unlink()
    except OSError as error:
        raise UsageError(f"cannot write {error.filename}: {error.strerror}") from None
    return changed


def check_with_promtool(folder: Path) -> bool:
    """Prometheus' own tool refuses what it would not load; False where it is not installed."""
    host = LocalHost()
    if host.which("promtool") is None:
        return False
    done = host.run(["promtool", "check", "config", str(folder.absolute() / "prometheus.yml")])
    if not done.ok:
        raise UsageError(f"promtool refuses it: {(done.err or done.out).strip()[:400]}")
    return True
