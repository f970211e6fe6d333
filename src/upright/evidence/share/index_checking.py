"""Checks pointers that somebody handed in: for the keeper's CI, which executes nothing.

Each bundle is fetched from where its pointer says, within bounds, and verified as everybody verifies it; what the
pointer says must be what the bundle says. A keeper also refuses flags that no recorded version of the engine takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from upright.base.errors import RecordError, UprightError
from upright.base.untrusted_text import on_one_line
from upright.evidence.share.bundle_urls import refuse_bundle_url
from upright.evidence.share.index_building import read_pointers
from upright.evidence.share.index_reading import ReadTotals, read_from, signature_at
from upright.evidence.share.opening import open_bundle
from upright.evidence.share.pointers import Pointer, pointer_to
from upright.evidence.share.repeats import OpenedBundle
from upright.evidence.share.signing import signature_path
from upright.evidence.share.statement import MOST_BYTES, identity_of
from upright.evidence.share.verifying import read_claim
from upright.facts.catalog.recorded_flags import recorded_versions, versions_taking
from upright.facts.records.base import Part
from upright.facts.records.recipe import Recipe

ANYWHERE = "https://index.invalid"
"""An index of which only this is known: its pointers lead to https, outside this network."""
_TOLD = ("model", "gpu", "gpus", "engine", "engine_version", "level", "tokens_per_second", "at", "signer")


class CheckedPointer(Part):
    """One pointer, and what the keeper does with it."""

    identity: str
    """sha256 of the bundle."""
    url: str
    """Where its author keeps it."""
    level: str | None
    """What verifying it came to; None if it was not got so far."""
    refused: str | None = None
    """Why it is not taken; None if it is."""


def checked_pointers(files: Sequence[Path], index_url: str | None) -> tuple[CheckedPointer, ...]:
    """Each once; a bundle that is there twice is refused the second time."""
    seen: set[str] = set()
    checked = []
    for pointer in read_pointers(files):
        twice = "it is there twice" if pointer.identity in seen else None
        checked.append(_refused(pointer, twice) if twice else _checked(pointer, index_url or ANYWHERE))
        seen.add(pointer.identity)
    return tuple(checked)


def _checked(pointer: Pointer, index_url: str) -> CheckedPointer:
    try:
        opened = _fetched(pointer, index_url)
        for fault in _faults(pointer, opened):
            return _refused(pointer, fault, opened.verification.level)
    except UprightError as error:
        return _refused(pointer, error.message)
    return CheckedPointer(identity=pointer.identity, url=pointer.url, level=opened.verification.level)


def _refused(pointer: Pointer, why: str, level: str | None = None) -> CheckedPointer:
    return CheckedPointer(identity=pointer.identity, url=pointer.url, level=level, refused=on_one_line(why))


def _fetched(pointer: Pointer, index_url: str) -> OpenedBundle:
    refuse_bundle_url(pointer.url, index_url)
    content = read_from(pointer.url, MOST_BYTES, ReadTotals())
    if identity_of(content) != pointer.identity:
        raise RecordError("what lies there is not the bundle that it names")
    with TemporaryDirectory() as folder:
        file = Path(folder) / "pointed.bundle.json"
        file.write_bytes(content)
        if (signature := signature_at(pointer.url, pointer)) is not None:
            signature_path(file).write_bytes(signature)
        return open_bundle(file)


def _faults(pointer: Pointer, opened: OpenedBundle) -> Iterator[str]:
    if opened.verification.level == "broken":
        yield f"broken: {opened.verification.broken[0].reason}"
        return
    kept = pointer_to(opened, pointer.url)
    if wrong := [name for name in _TOLD if getattr(pointer, name) != getattr(kept, name)]:
        yield f"its {', '.join(wrong)} is not what the bundle says"
    recipe = read_claim(opened.statement).of(Recipe)
    if recipe is None or not recorded_versions(recipe.engine):
        return
    names = {setting.name.partition("=")[0] for setting in recipe.arguments if setting.name.startswith("-")}
    if unknown := sorted(name for name in names if not versions_taking(recipe.engine, name)):
        yield f"no recorded version of {recipe.engine} takes {', '.join(unknown[:3])}"
