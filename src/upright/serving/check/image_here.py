"""A recipe's image -> whether what this machine has under its name is what was meant."""

from __future__ import annotations

import re
from typing import NamedTuple

from upright.base.bounds.bounded_json import parse_json
from upright.base.host import LocalHost
from upright.facts import catalog
from upright.facts.records.check import Refusal
from upright.facts.records.recipe import Recipe

_REPOSITORY_DIGEST = re.compile(r"[\w.:/-]{1,300}@sha256:[0-9a-f]{64}")
_MOST_DIGESTS = 100


class ImageHere(NamedTuple):
    """What came of comparing."""

    refusals: tuple[Refusal, ...] = ()
    remarks: tuple[str, ...] = ()


def image_here(recipe: Recipe) -> ImageHere:
    """Asks the runtime that the recipe names; nothing is pulled."""
    if recipe.image is None or recipe.runtime not in ("docker", "podman"):
        return ImageHere()
    if LocalHost().which(recipe.runtime) is None:
        return ImageHere(remarks=(f"There is no {recipe.runtime} here: the image was compared with nothing.",))
    row = catalog.find_image(recipe.image)
    wanted = recipe.image.partition("@")[2] or (row.digest if row else None)
    for name in dict.fromkeys((recipe.image, row.reference if row else recipe.image)):
        if (digests := _digests(recipe.runtime, name)) is not None:
            return _compared(name, wanted, digests)
    return ImageHere(remarks=(f"The image is not here: {recipe.runtime} pull {recipe.image}",))


def _compared(name: str, wanted: str | None, digests: tuple[str, ...]) -> ImageHere:
    if wanted is None:
        known = f"what is here is {digests[0]}: --image with that pins it" if digests else "what is here has none"
        return ImageHere(remarks=(f"The image is named by its tag alone; {known}.",))
    # podman finds an image by a digest that no tag has any more, and lists none
    if any(digest.endswith(f"@{wanted}") for digest in digests or (name,)):
        return ImageHere(remarks=("The image that is here is the one of the digest.",))
    there = digests[0] if digests else "of no digest: it was built here"
    return ImageHere(refusals=(Refusal(setting=name, message=f"what is here is {there}, wanted is {wanted}"),))


def _digests(runtime: str, name: str) -> tuple[str, ...] | None:
    """None if it is not here."""
    told = LocalHost().run([runtime, "image", "inspect", "--format", "{{json .RepoDigests}}", "--", name])
    if not told.ok:
        return None
    try:
        listed = parse_json(told.out.strip() or "[]")
    except ValueError:
        return ()
    named = listed if isinstance(listed, list) else []
    return tuple(text for text in named[:_MOST_DIGESTS] if isinstance(text, str) and _REPOSITORY_DIGEST.fullmatch(text))
