"""Targets and files of a monitoring setup -> what was written, as JSON and as a page."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from upright.serving.monitor.files import MonitorOptions, all_recording_rules
from upright.serving.monitor.target import MetricsTarget

_SHOWN = 4
"""Deployments of a kind that are named; a fleet may have thousands."""


def monitor_json(
    targets: list[MetricsTarget], wishes: MonitorOptions, folder: Path, files: Mapping[str, str]
) -> dict[str, Any]:
    everything = {rule.record for rule in all_recording_rules(targets, wishes.window)}
    return {
        "folder": str(folder),
        "files": sorted(files),
        "targets": [
            {
                "deployment": target.name,
                "software": target.software,
                "version": target.version,
                "metrics_of": target.metrics.version,
                "source": target.metrics.source,
                "address": target.address,
                "path": target.path,
                "key_file": None if target.key_file is None else str(target.key_file),
                "figures": sorted(own := {rule.record for rule in all_recording_rules([target], wishes.window)}),
                "lacks": sorted(everything - own),
            }
            for target in targets
        ],
    }


def monitor_page(console: Console, shown: Mapping[str, Any], *, dry_run: bool) -> None:
    kinds: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for target in shown["targets"]:
        kind = (target["software"], target["version"], target["key_file"] is not None, *target["lacks"])
        kinds.setdefault(kind, []).append(target)
    for group in kinds.values():
        first = group[0]
        console.print(Text.assemble((f"{first['software']} {first['version'] or ''}".strip(), "bold"), _who(group)))
        if first["version"] != first["metrics_of"]:
            console.print(f"  by the metrics of {first['metrics_of']}: nobody recorded its own", markup=False)
        console.print(f"  {len(first['figures'])} figures" + _lacks(first["lacks"]), markup=False)
    console.print()
    console.print("would write" if dry_run else "wrote", markup=False)
    for path in shown["files"]:
        console.print(f"  {shown['folder']}/{path}", markup=False, soft_wrap=True)
    console.print()
    config = shlex.quote(f"{shown['folder']}/prometheus.yml")
    command_line = f"prometheus --config.file={config} --web.listen-address=127.0.0.1:9090"
    console.print(f"  {command_line}", markup=False, soft_wrap=True)


def _who(group: list[dict[str, Any]]) -> str:
    """Names and addresses of a few, the number of many."""
    shown = ", ".join(f"{target['deployment']} at {target['address']}" for target in group[:_SHOWN])
    more = f" and {len(group) - _SHOWN} more" if len(group) > _SHOWN else ""
    return f"  {shown}{more}" + (", with the key" if group[0]["key_file"] else "")


def _lacks(names: list[str]) -> str:
    figure_names = ", ".join(name.removeprefix("upright:") for name in names)
    return f"; it does not tell {figure_names}" if figure_names else ""


def keys_sentence(targets: Sequence[MetricsTarget]) -> str | None:
    """Who must be able to read which keys; None where no metrics want one."""
    files = sorted({str(target.key_file) for target in targets if target.key_file is not None})
    if not files:
        return None
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    return f"note: Prometheus must be able to read {files[0]}{more}: only you can; run it as yourself"
