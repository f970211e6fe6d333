"""What a person meets first: this machine, its best three models, what runs here, and what changed since last time.

Looking at a machine and placing every model on it takes seconds: the answer is kept for a day, as long as machine and
catalogue are the same.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from upright.base.bounds.bounded_json import parse_json
from upright.base.bounds.files import file_text
from upright.base.errors import UprightError
from upright.base.home import home, make_private
from upright.base.units import format_memory

if TYPE_CHECKING:
    from upright.facts.records.box import Box
    from upright.facts.records.recommendation import ModelOffer

KEPT = "first-look.json"
KEPT_SECONDS = 24 * 3600
_DRIVERS = ("/proc/driver/nvidia/gpus", "/sys/class/kfd/kfd/topology/nodes")
_WHOLE = ("machine", "three")


def first_look() -> dict[str, Any]:
    """`machine` in words, `three` offers by `best`, `fast` and `small`, `running` deployments, `changed` sentences."""
    before, now = _kept(), _fingerprint()
    fresh = bool(before) and before["of"] == now and 0 <= time.time() - before["at"] < KEPT_SECONDS
    seen = before if fresh else {"of": now, "at": time.time(), **_seen()}
    changed = seen["changed"] if fresh else list(_changes(before, seen))
    if not fresh:
        seen["changed"] = changed
        _keep(seen)
    return {**{name: seen[name] for name in _WHOLE}, "running": list(_running()), "changed": changed}


def _seen() -> dict[str, Any]:
    from upright.planning.probing import box_of
    from upright.planning.requests.library import recommend

    box = box_of()
    made = recommend(box)
    three = {"best": next(iter(made.offers), None), "fast": made.fast, "small": made.small}
    return {
        "machine": machine_words(box),
        "three": {word: _offer(offer) for word, offer in three.items() if offer is not None},
    }


def _offer(offer: ModelOffer) -> dict[str, Any]:
    rates = {
        name: None if rate is None else {"low": rate.low, "best": rate.best, "high": rate.high}
        for name, rate in (("decode", offer.decode), ("prompt", offer.prompt))
    }
    names = ("model", "source", "artifact", "engine", "context_tokens", "users_at_context", "download_bytes")
    from upright.planning.speed.turns import expected_seconds

    first = expected_seconds(offer.turn.first_answer) if offer.turn else None
    return {**{name: getattr(offer, name) for name in names}, **rates, "first_answer": first}


def machine_words(box: Box) -> str:
    """`2 x NVIDIA GeForce RTX 3090 (24.0 GiB each) · 128 GiB of RAM · AMD EPYC 7302`."""
    kinds: dict[tuple[str, float | None], int] = {}
    for gpu in box.gpus:
        kinds[(gpu.name, gpu.memory_bytes.value)] = kinds.get((gpu.name, gpu.memory_bytes.value), 0) + 1
    parts = []
    for (name, memory), count in kinds.items():
        each = f" ({format_memory(memory)}{' each' if count > 1 else ''})" if memory else ""
        parts.append(f"{f'{count} x ' if count > 1 else ''}{name}{each}")
    ram = box.memory_bytes.value
    return " · ".join((*(parts or ["no GPU"]), f"{format_memory(ram)} of RAM" if ram else "RAM unknown", box.cpu.name))


def _running() -> Iterator[dict[str, Any]]:
    from upright.facts import store

    for directory in store.deployments():
        from upright.facts.records.deployment import RUNNING
        from upright.serving.launch import status

        try:
            deployment = status(directory)
        except UprightError:
            continue
        if deployment.state in {*RUNNING, "failed"}:
            yield {"name": deployment.name, "state": deployment.state, "engine": deployment.engine}


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Of the same machine since the answer was last made."""
    if not before or before["machine"] != now["machine"]:
        return
    for word, offer in now["three"].items():
        old = before["three"].get(word)
        if old is None or old["source"] != offer["source"]:
            was = f", was {old['artifact']}" if old else ""
            yield f"{word}: {offer['artifact']} on {offer['engine']}{was}"
        elif (old["decode"], old["context_tokens"]) != (offer["decode"], offer["context_tokens"]):
            yield f"{word}: the plan of {offer['artifact']} moved"


def _fingerprint() -> str:
    """Of machine and catalogue, without starting a program: what it misses is seen a day later."""
    from upright import __version__
    from upright.facts.catalog.compiled import OURS
    from upright.facts.catalog.installed_catalogues import catalogues_folder

    memory = os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0
    drivers = [name for folder in _DRIVERS if Path(folder).is_dir() for name in sorted(os.listdir(folder))]  # noqa: PTH208
    changed = max(entry.stat().st_mtime_ns for entry in OURS.iterdir())
    taken = sorted(entry.name for entry in catalogues_folder().iterdir()) if catalogues_folder().is_dir() else []
    return repr((__version__, changed, taken, platform.node(), os.cpu_count(), memory, drivers))


def _kept() -> dict[str, Any]:
    """Empty if there is none, or it is not ours."""
    try:
        found = parse_json(file_text(home() / KEPT, 1 << 20, own=True))
    except (OSError, ValueError, UprightError):
        return {}
    return found if isinstance(found, dict) and {"of", "at", "changed", *_WHOLE} <= found.keys() else {}


def _keep(seen: Mapping[str, Any]) -> None:
    from upright.facts.store.files import write_atomically

    try:
        make_private(home())
        write_atomically(home() / KEPT, json.dumps(seen).encode(), mode=0o600)
    except (OSError, UprightError):
        return  # it is made anew next time
