"""Writes ClientSettings into the client's own file, and leaves everything else in it as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from upright.base.bounds.bounded_json import parse_json
from upright.base.bounds.files import file_text
from upright.base.errors import UsageError
from upright.facts.store import resolve_inside, write_atomically
from upright.serving.connect.client_settings import ClientSettings


def write_settings(settings: ClientSettings, path: Path | None = None) -> Path:
    """Where they were written. A file that was there is kept beside, as NAME.before-upright."""
    if settings.file is None and path is None:
        raise UsageError(
            f"{settings.client} keeps its settings where only it can write", hint="enter what is printed by hand"
        )
    target = (path or Path(str(settings.file))).expanduser().absolute()
    folder = target.parent if path else Path.home() if str(settings.file).startswith("~") else Path.cwd()
    real = resolve_inside(target, folder)
    before = _content(real)
    text = settings.text if settings.settings is None else _merged(before, settings.settings, target)
    if text == before:
        return target
    try:
        real.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror}") from None
    mode = real.stat().st_mode & 0o777 if before is not None else 0o600
    kept = target.with_name(f"{target.name}.before-upright")
    if before is not None and not kept.exists():  # a second time `before` would be what we wrote ourselves
        write_atomically(kept, before.encode(), mode=mode)
    write_atomically(real, text.encode(), mode=mode)
    return target


def _content(path: Path) -> str | None:
    try:
        return file_text(path)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from None


def _merged(before: str | None, settings: dict[str, Any], path: Path) -> str:
    try:
        there = parse_json(before) if before and before.strip() else {}
    except ValueError:
        raise UsageError(
            f"{path} has comments or is no JSON, and would lose them", hint="paste what is printed without --write"
        ) from None
    if not isinstance(there, dict):
        raise UsageError(f"{path} holds no JSON object")
    return json.dumps(_merge(there, settings), indent=2, ensure_ascii=False) + "\n"


def _merge(there: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    """Objects are merged, everything else is ours."""
    merged = dict(there)
    for name, setting in ours.items():
        old = merged.get(name)
        merged[name] = _merge(old, setting) if isinstance(old, dict) and isinstance(setting, dict) else setting
    return merged
