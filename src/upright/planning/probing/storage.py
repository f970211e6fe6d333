"""df, du -> disks with room for models, and the Hugging Face cache."""

from __future__ import annotations

import re

from upright.base.units import GIB, KIB
from upright.facts.records.base import Figure, unknown
from upright.facts.records.box import Disk, ModelCache
from upright.planning.probing.questions import Answers, output_of, script

QUESTIONS = {
    # A dead network mount hangs df for minutes; the local disks are better than nothing.
    "disks": script("disks", "timeout 5 df -PTk 2>/dev/null || df -PTkl"),
    "model-cache": script(
        "model-cache",
        """
        path=${HF_HUB_CACHE:-${HF_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/huggingface}/hub}
        there=$path
        while [ ! -d "$there" ] && [ "$there" != / ] && [ "$there" != . ]; do there=$(dirname "$there"); done
        printf 'path\\t%s\\n' "$path"
        df -Pk "$there" | sed -n '2s/^/df\\t/p'
        [ -d "$path" ] && printf 'used\\t%s\\n' "$(timeout 3 du -sk "$path" 2>/dev/null | cut -f1)"
        exit 0
        """,
    ),
}

_NOT_FOR_MODELS = re.compile(
    r"^(tmpfs|devtmpfs|ramfs|squashfs|efivarfs|vfat|iso9660|proc|sysfs|cgroup2?|autofs|nsfs|fuse\.(?!mergerfs).*)$"
)
_INSIDE_CONTAINERS = re.compile(r"^/(var/lib/(docker|containers|kubelet)|run|sys|proc|dev|snap)(/|$)")
_ROW = re.compile(r"^(?P<device>.+?)\s+(?P<type>\S+)\s+(?P<size>\d+)\s+\d+\s+(?P<free>\d+)\s+\S+\s+(?P<mount>/.*)$")


def read_disks(answers: Answers) -> tuple[Disk, ...]:
    disks: dict[str, Disk] = {}
    for line in (output_of(answers, "disks") or "").splitlines():
        row = _ROW.match(line)
        if row is None or _NOT_FOR_MODELS.match(row["type"]) or _INSIDE_CONTAINERS.match(row["mount"]):
            continue
        size, free = _kib(row["size"], "df"), _kib(row["free"], "df")
        if size.value is not None and size.value >= GIB:
            disks.setdefault(
                row["device"] if row["type"] != "overlay" else row["mount"],
                Disk(mount=row["mount"], filesystem=row["type"], size_bytes=size, free_bytes=free),
            )
    return tuple(sorted(disks.values(), key=lambda disk: disk.mount))


def read_model_cache(answers: Answers) -> ModelCache | None:
    rows = dict(line.split("\t", 1) for line in (output_of(answers, "model-cache") or "").splitlines() if "\t" in line)
    if "path" not in rows:
        return None
    # device, size, used, available, capacity, mount
    columns = rows.get("df", "").split(maxsplit=5)
    known = len(columns) == 6 and columns[3].isdecimal()
    return ModelCache(
        path=rows["path"],
        mount=columns[5] if known else None,
        free_bytes=_kib(columns[3], "df") if known else unknown("df gave no line for it"),
        used_bytes=_used(rows.get("used")),
    )


def _used(kib: str | None) -> Figure:
    if kib is None:
        return Figure(value=0, basis="probed", source="the folder does not exist yet")
    return _kib(kib, "du") if kib.isdecimal() else unknown("du took longer than 3 s")


def _kib(text: str, source: str) -> Figure:
    return Figure(value=int(text) * KIB, basis="probed", source=source)
