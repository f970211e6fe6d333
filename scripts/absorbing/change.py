"""Two releases and the doubts about our rows -> the edits that follow by themselves, as one diff.

Lists of what the release has are new files. A range is ended where all that a row speaks of is gone; no range is ever
extended: that takes a person who looked.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from absorbing.grounds import ROOT, Doubt
from absorbing.release import Release
from upright.facts import catalog

RECORDED = "src/upright/facts/catalog"
VERSIONS = re.compile(r'(versions: )(?:"([^"]*)"|\'([^\']*)\'|([^\s,}]+))')


def edited_files(newer: Release, doubts: Iterable[Doubt]) -> dict[str, str]:
    """Path in the repository -> its new text."""
    texts = dict(_recorded(newer))
    for doubt in doubts:
        kind, _, name = doubt.place.partition("/")
        row = catalog.rows(kind).get(name) if doubt.ends else None
        if row is None or row.owner != "upright":
            continue
        path = next(path for path in _files(kind) if re.search(_head(name), path.read_text(encoding="utf-8")))
        place = path.relative_to(ROOT).as_posix()
        texts[place] = ended(texts.get(place, path.read_text(encoding="utf-8")), name, newer.version)
    return texts


def _recorded(newer: Release) -> Iterable[tuple[str, str]]:
    lists = {"flags": "".join(f"{flag}\n" for flag in sorted(newer.names["flag"] | {"--help"}))}
    if newer.metrics:
        about = f"# source of {newer.engine} {newer.version}\n"
        lists["metrics"] = about + "".join(f"{name} {kind}\n" for name, kind in sorted(newer.metrics.items()))
    for kind, text in lists.items():
        place = f"{RECORDED}/{kind}/{newer.engine}-{newer.version}.txt"
        if not (ROOT / place).exists():  # what was recorded from the engine's own help stays
            yield place, text


def _files(kind: str) -> list[Path]:
    own = [ROOT / RECORDED / f"{kind}.yaml", *sorted((ROOT / RECORDED / kind).glob("*.yaml"))]
    return [path for path in (*own, *sorted((ROOT / "src/upright/engines").glob(f"*/{kind}.yaml"))) if path.exists()]


def _head(name: str) -> str:
    return rf'(?m)^- id: ["\']?{re.escape(name)}["\']?$'


def ended(text: str, name: str, version: str) -> str:
    """The file with that row's range ending before the version."""
    head = re.search(_head(name), text)
    if head is None:
        raise ValueError(f"no row {name}")
    following = re.search(r"(?m)^\S", text[head.end() :])
    end = head.end() + following.start() if following else len(text)
    block = text[head.start() : end]
    if match := VERSIONS.search(block):
        span = next(group for group in match.groups()[1:] if group is not None)
        span = f"<{version}" if span == "*" else f"{span},<{version}"
        block = f'{block[: match.start()]}versions: "{span}"{block[match.end() :]}'
    else:
        after = re.search(r"(?m)^  engines?: .*\n", block)
        at = after.end() if after else block.index("\n") + 1
        block = f'{block[:at]}  versions: "<{version}"\n{block[at:]}'
    return text[: head.start()] + block + text[end:]


def as_diff(texts: Mapping[str, str]) -> str:
    """What `git apply` takes."""
    parts = []
    for place, text in sorted(texts.items()):
        path = ROOT / place
        before = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
        origin = f"a/{place}" if path.exists() else "/dev/null"
        parts += difflib.unified_diff(before, text.splitlines(keepends=True), origin, f"b/{place}")
    return "".join(parts)
