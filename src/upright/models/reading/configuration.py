"""A config.json and nothing else -> Model: sizes from shapes and quantisation, marked as derived."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from upright.base.errors import ReadError
from upright.facts.records.model import Model
from upright.models.deriving.model import bounded, model_of
from upright.models.reading.config import CONFIG_LIMIT_BYTES, parse_config
from upright.models.reading.names import with_family
from upright.models.reading.places import ArtifactPlace, read_small

_QUANTISED = "hf_quant_config.json"
_IN_A_NAME = re.compile(r"(?i)(^|[-_./])(nvfp4|mxfp4|fp8|awq|gptq|int4|int8|w4a16|w8a8|w4a8|fp4)([-_./]|$)")
_NO_QUANTISATION = "quantization_config"


def read_configuration(place: ArtifactPlace, file: str, *, source: str, name: str) -> Model:
    """The configuration of a file, of a folder or of a repository without weights."""
    config = with_quantisation(place, _parsed(place, file))
    model = model_of(config, name=name, source=source, file=file)
    told = model.not_understood
    if model.quantisation is None and (_IN_A_NAME.search(name) or _IN_A_NAME.search(source)):
        # The name says that weights are quantised and the file does not say how: their size is not known.
        told = (*told, _NO_QUANTISATION)
    return model.model_copy(
        update={
            "revision": place.revision,
            "architecture": with_family(bounded(model.architecture, told)),
            "not_understood": told,
        }
    )


def _parsed(place: ArtifactPlace, file: str) -> Mapping[str, Any]:
    """A file that somebody names may be any JSON, or none."""
    text = read_small(place, file, CONFIG_LIMIT_BYTES)
    try:
        config = parse_config(text, file)
    except ReadError:
        config = {}
    if not config.get("architectures") and not config.get("model_type"):
        raise ReadError(f"{file} is no model: neither GGUF nor safetensors, nor a model's config.json")
    return config


def with_quantisation(place: ArtifactPlace, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """ModelOpt writes what it did into a file of its own, beside the configuration."""
    if "quantization_config" in config or _QUANTISED not in set(place.names()):
        return config
    beside = parse_config(read_small(place, _QUANTISED, CONFIG_LIMIT_BYTES), _QUANTISED).get("quantization")
    if not isinstance(beside, Mapping):
        return config
    declared = {**beside, "quant_method": "modelopt", "ignore": beside.get("exclude_modules") or []}
    return {**config, "quantization_config": declared}
