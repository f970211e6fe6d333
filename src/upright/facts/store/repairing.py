"""Repair of a deployment's directory whose evidence is damaged; nothing is thrown away.

Evidence is not mended: a log that no longer fits its chain is set aside whole, and a new one is begun.
"""

from __future__ import annotations

import os
from pathlib import Path

from upright.facts.store.checking import check
from upright.facts.store.files import sync_directory
from upright.facts.store.journal import Journal, head_file, lock


def repair(directory: Path, *, dry_run: bool = False) -> list[str]:
    """What was done (or would be), in words; what it cannot put right, `check` still finds afterwards."""
    log = directory / "evidence.jsonl"
    findings = [finding for finding in check(directory) if finding.file in (log.name, head_file(log).name)]
    if any(finding.severity == "problem" for finding in findings):
        return [_set_aside(log, dry_run=dry_run)]
    if any(finding.code == "torn" for finding in findings):
        return [_mend_tail(log, dry_run=dry_run)]
    return []


def _set_aside(log: Path, *, dry_run: bool) -> str:
    number = 1
    while (kept := log.with_name(f"{log.stem}.damaged-{number}.jsonl")).exists():
        number += 1
    message = f"the evidence no longer fits its chain: kept in {kept.name}, and a new log begins"
    if dry_run:
        return message
    descriptor = lock(log)
    try:
        if log.exists():
            log.rename(kept)
        head_file(log).rename(kept.with_suffix(".head"))
        sync_directory(log.parent)
    finally:
        os.close(descriptor)
    return message


def _mend_tail(log: Path, *, dry_run: bool) -> str:
    if dry_run:
        return "the torn tail of the evidence would be set aside"
    with Journal(log) as journal:
        assert journal.repaired is not None
        return f"{journal.repaired.torn_bytes:,} bytes of a torn line are now in {journal.repaired.kept_in.name}"
