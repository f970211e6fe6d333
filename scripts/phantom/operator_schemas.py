"""A CUDA wheel of vLLM -> the schemas of its compiled operators as JSON, from the strings in its libraries."""

from __future__ import annotations

import json
import re
import sys
import zipfile
from pathlib import Path

NAMESPACES = {
    "_C_stable_libtorch": ("_C", "_C_cache_ops", "_C_cuda_utils", "_C_custom_ar"),
    "_moe_C_stable_libtorch": ("_moe_C",),
}
"""Libraries that define in other namespaces than their own."""
LONGEST = 4000
TEXT = re.compile(rb"[\x20-\x7e\n\t]{10,}")
SCHEMA = re.compile(r"[a-z_][A-Za-z0-9_.]*\(.*\) ?-> ?(\(.*\)|[A-Za-z_\[\]!()?, ]+)$")


def main() -> None:
    wheel, to = sys.argv[1:]
    found: dict[str, list[str]] = {}
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith(".so") and "third_party" not in name:
                stem = name.rpartition("/")[2].partition(".")[0]
                schemas = sorted(_schemas(archive.read(name)))
                for namespace in NAMESPACES.get(stem, (stem,)):
                    found[namespace] = schemas
    Path(to).write_text(json.dumps(found, indent=0))


def _schemas(library: bytes) -> set[str]:
    """Around each arrow: the megabytes between are not looked at."""
    lines = set()
    for arrow in re.finditer(b"->", library):
        begin = library.rfind(b"\0", max(0, arrow.start() - LONGEST), arrow.start()) + 1
        text = TEXT.fullmatch(library[begin : library.find(b"\0", arrow.end(), arrow.end() + LONGEST)])
        lines.add(" ".join(text.group().decode().split()) if text else "")
    return {line for line in lines if SCHEMA.match(line) and ("Tensor" in line or "int" in line)}


if __name__ == "__main__":
    main()
