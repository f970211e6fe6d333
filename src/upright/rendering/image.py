"""A name -> the container image it means, and what is in it."""

from __future__ import annotations

from dataclasses import dataclass

from upright import catalog
from upright.errors import UsageError

SM12_CACHE_PATCH = "triton-mla-fp8-sm120"


@dataclass(frozen=True)
class Image:
    """A container image."""

    reference: str
    about: str | None = None
    patched: bool = False
    """Carries the community's patch of the fp8 cache for SM 12.x."""


def image_named(name: str) -> Image:
    """A row of the catalogue by its id or reference, else what the person wrote."""
    for row in catalog.images():
        if name in (row.id, row.reference):
            about = " ".join(each for each in (row.about, row.caution) if each)
            return _refuse_moving(Image(row.reference, about, patched=SM12_CACHE_PATCH in row.patches))
    return _refuse_moving(Image(name, "named by the caller; pin the digest of what you pulled"))


def _refuse_moving(image: Image) -> Image:
    tail = image.reference.rpartition("/")[2]
    if "..." in tail or "*" in tail:
        raise UsageError(f"{image.reference}: nobody wrote down the whole tag", hint="look it up and name it in full")
    if "@" not in tail and (":" not in tail or tail.endswith(":latest")):
        raise UsageError(
            f"{image.reference} is another image tomorrow: an image needs a tag that stays, or a digest",
            hint=f"docker pull, then docker inspect --format '{{{{index .RepoDigests 0}}}}' {image.reference}",
        )
    return image
