"""The whole catalogue -> files that any web server can hand out: one a kind, named by its content, and an index.

A file whose name holds its digest never changes, so caches may keep it for ever; the index alone is asked for again.
Each file is a list of rows as a person's own catalogue takes them: JSON is YAML.
"""

from __future__ import annotations

import hashlib
import json

from upright.facts.catalog.loader import KINDS, rows

INDEX = "index.json"
_SET_BY_THE_LOADER = {"owner", "file"}


def export_files(version: str) -> dict[str, bytes]:
    """Name -> content; `version` is the program's that wrote it."""
    files: dict[str, bytes] = {}
    kinds = {}
    for kind in KINDS.values():
        content = _content(kind.name)
        digest = hashlib.sha256(content).hexdigest()
        name = f"{kind.name}-{digest[:16]}.json"
        files[name] = content
        kinds[kind.name] = {
            "file": name,
            "sha256": digest,
            "bytes": len(content),
            "rows": len(rows(kind.name)),
            "about": kind.about,
        }
    index = {"catalog": 1, "upright": version, "kinds": kinds}
    return {**files, INDEX: (json.dumps(index, indent=1) + "\n").encode()}


def _content(kind: str) -> bytes:
    """The same rows make the same bytes."""
    dumped_rows = [row.model_dump(mode="json", exclude=_SET_BY_THE_LOADER) for row in rows(kind).values()]
    text = json.dumps(sorted(dumped_rows, key=lambda row: str(row["id"])), ensure_ascii=False, sort_keys=True)
    return (text + "\n").encode()
