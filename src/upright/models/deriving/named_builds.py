"""A Model of a repository that the catalogue does not list, by the model and the scheme in its name.

Only where the hub cannot be asked: `unsloth/gpt-oss-120b-GGUF:Q4_K_M` is gpt-oss-120b with the bits of Q4_K_M, and
`owner/Qwen3-235B-A22B-AWQ` is that model in AWQ. Sizes are derived, as of any build whose files nobody read. A name
whose model or scheme is not known tells nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from upright.facts import catalog
from upright.facts.catalog import packings
from upright.facts.catalog.rows.base import Fact
from upright.facts.catalog.rows.model import Artifact, ModelRow
from upright.facts.records.model import Model
from upright.models.deriving.catalogue_models import record, records
from upright.models.deriving.typed_gguf import gguf_of_type

_WHY = "by its name: the hub could not be asked"
# What the end of a repository's name says of its weights, and the row of `schemes` that stands for it.
_SCHEMES = (
    (re.compile(r"mxfp4"), "MXFP4"),
    (re.compile(r"fp4"), "NVFP4"),
    (re.compile(r"gptq"), "GPTQ INT4"),
    (re.compile(r"awq|int4|w4a16|4bit|autoround"), "AWQ INT4"),
    (re.compile(r"fp8|w8a8"), "FP8"),
    (re.compile(r"bf16"), "BF16"),
)
_SUFFIX = re.compile(
    rf"[-_.]({packings.SUFFIXES}"
    r"|gguf|i1|ud|imat|nvfp4|fp4|mxfp4|awq|int4|w4a16|\dbit|autoround|gptq|fp8|w8a8|bf16|q4|dynamic"
    r"|block|modelopt|mixed|g\d+|quantized|hf)$"
)
_MAKER = re.compile(r"^(?:nvidia-|[a-z][-a-z0-9.]*_)")
_RELEASE = re.compile(r"[-_](it|instruct|chat|exp|thinking)(-\d{4})?$")
_AGAIN = re.compile(r"(?<=fp[48])[-_]v\d$")
"""A scheme that a maker published twice: `FP4-v2`."""


def build_by_name(text: str) -> Model | None:
    """None if the name does not tell a model of the catalogue and how it is stored."""
    repository, _, quant = text.partition(":")
    _, _, name = repository.partition("/")
    if not name:
        return None
    row = next((row for stem in _stems(name) if (row := catalog.find_model(stem)) is not None), None)
    if row is None:
        return None
    if ("gguf" in name.lower()) is not bool(quant):
        return None
    return gguf_of_type(row, text) if quant else _of_scheme(row, repository, name)


def is_build_by_name(model: Model) -> bool:
    """Whether this is such a build: not read, and no artifact that the catalogue lists."""
    if model.basis == "read" or model.files:
        return False
    return catalog.find_model(model.source) is None and build_by_name(model.source) is not None


def _stems(name: str) -> Iterator[str]:
    """What is left of a name without the words of its scheme, then without those of a release of the same shape."""
    stem = _AGAIN.sub("", name.lower())
    while (shorter := _SUFFIX.sub("", stem)) != stem:
        stem = shorter
    for candidate in dict.fromkeys((stem, _MAKER.sub("", stem))):
        yield candidate
        yield _RELEASE.sub("", candidate)


def _of_scheme(row: ModelRow, repository: str, name: str) -> Model | None:
    packed = next((scheme for pattern, scheme in packings.SCHEMES if pattern.search(repository.lower())), None)
    scheme = packed or next((scheme for pattern, scheme in _SCHEMES if pattern.search(name.lower())), None)
    if scheme is None:
        return _sister(row, repository, name)
    unsaid = Fact(value=None, grade="D", source=_WHY)
    build = Artifact(repository=repository, format="safetensors", scheme=scheme, size_bytes=unsaid, engines=())
    return record(row, build)


def _sister(row: ModelRow, repository: str, name: str) -> Model | None:
    """Another release by the model's own maker, who says nothing of its storage: as the first."""
    if repository.partition("/")[0] != row.repository.partition("/")[0]:
        return None
    known = records(row)
    return known[0].model_copy(update={"name": name, "source": repository, "basis": "derived"}) if known else None
