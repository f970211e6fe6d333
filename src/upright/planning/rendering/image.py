"""The container image that a name means, and the settings its maker runs it with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from upright.base.errors import UsageError
from upright.engines.facets.flags import FlagCase
from upright.engines.gpu_settings import peer_access_refused
from upright.facts import catalog
from upright.facts.catalog.rows.engine import ImageRow, ImageSetting
from upright.facts.records.recipe import Setting

SM12_CACHE_PATCH = "triton-mla-fp8-sm120"


class Image(NamedTuple):
    """A container image."""

    reference: str
    about: str | None = None
    patched: bool = False
    """Carries the community's patch of the fp8 cache for SM 12.x."""
    row: ImageRow | None = None
    """What the catalogue knows of it."""


def image_named(name: str) -> Image:
    """A row of the catalogue by its id, reference or tag, else what the person wrote."""
    row = catalog.find_image(name)
    if row is None:
        return _refuse_moving(Image(name, f"Named by the caller. {_origin(name, None)}"))
    about = " ".join(sentence for sentence in (row.about, row.caution, _origin(row.pinned, row)) if sentence)
    return _refuse_moving(Image(row.pinned, about, patched=SM12_CACHE_PATCH in row.patches, row=row))


def upstream_image(reference: str) -> Image:
    """Of a release that its makers publish under a tag, by the digest that the catalogue may have of it."""
    row = catalog.find_image(reference)
    pinned = row.pinned if row else reference
    return Image(pinned, f"Upstream's release. {_origin(pinned, None)}")


def publisher(reference: str) -> str:
    """Who can put another image under this name: a registry, and the account there."""
    first, *rest = reference.partition("@")[0].split("/")
    if rest and ("." in first or ":" in first or first == "localhost"):
        return "/".join((first, *rest[:-1]))
    return f"docker.io/{first if rest else 'library'}"


def _origin(reference: str, row: ImageRow | None) -> str:
    who = publisher(reference)
    if row is not None and row.kind == "community":
        who += " (none of the engine's makers)"
    if "@" in reference:
        return f"By its digest; published by {who}."
    return f"By its tag alone, no digest is recorded: {who} can put another image under it."


def with_variables(settings: Iterable[Setting], case: FlagCase) -> tuple[Setting, ...]:
    """The engine's own variables, and those that the image's maker runs it with."""
    row = case.serving.image
    return tuple(_joined(settings, row.variables if row else (), case))


def with_arguments(settings: Iterable[Setting], case: FlagCase) -> tuple[Setting, ...]:
    """The engine's own flags, and those that the image's maker runs it with."""
    row = case.serving.image
    return tuple(_joined(settings, row.arguments if row else (), case))


def image_notes(row: ImageRow | None) -> Iterator[str]:
    """What the image's memory profiler counts, and what it is known to break."""
    if row is None:
        return
    yield from (f"Image {row.id}: {sentence}" for sentence in (row.profiler, *row.breaks) if sentence)


def _joined(settings: Iterable[Setting], wanted: Iterable[ImageSetting], case: FlagCase) -> Iterator[Setting]:
    """What the engine sets for this box and plan goes before what the image's maker set for theirs."""
    own = tuple(settings)
    yield from own
    names, row = {setting.name for setting in own}, case.serving.image
    model = case.row.id if case.row else None
    for setting in wanted:
        if setting.name in names or (setting.models and model not in setting.models):
            continue
        if setting.needs_peer_access and peer_access_refused(case.plan, case.box):
            continue
        source = f"catalogue, images/{row.id}" if row else None
        yield Setting(name=setting.name, value=setting.value, reason=setting.reason, source=source)


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
