"""A name -> the container image it means, and what is in it."""

from __future__ import annotations

from dataclasses import dataclass

from upright import catalog
from upright.errors import UsageError


@dataclass(frozen=True)
class Image:
    """A container image."""

    reference: str
    about: str | None = None
    patched: bool = False
    """Carries the community's patches for SM 12.x."""


def image_named(name: str) -> Image:
    """A row of the catalogue by its id or reference, else what the person wrote."""
    if "images" in catalog.KINDS:
        for row in catalog.rows("images").values():
            if name in (row.id, getattr(row, "reference", None)):
                return _of_row(row)
    return _refuse_moving(Image(name, "named by the caller; pin the digest of what you pulled"))


def _of_row(row: object) -> Image:
    about, caution = getattr(row, "about", None), getattr(row, "caution", None)
    words = " ".join(each for each in (about, caution) if each) or None
    return Image(getattr(row, "reference", ""), words, patched=bool(getattr(row, "patches", ())))


def _refuse_moving(image: Image) -> Image:
    tail = image.reference.rpartition("/")[2]
    if "@" not in tail and (":" not in tail or tail.endswith(":latest")):
        raise UsageError(
            f"{image.reference} is another image tomorrow: an image needs a tag that stays, or a digest",
            hint=f"docker pull, then docker inspect --format '{{{{index .RepoDigests 0}}}}' {image.reference}",
        )
    return image
