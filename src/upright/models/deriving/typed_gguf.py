"""A Model of a catalogue name and a GGUF type that no artifact lists: `glm-4.7:IQ4_XS`.

Sizes follow from the bits of the type and the shapes of the model; builders of one type differ (see the test of sizes).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

from upright.facts import catalog
from upright.facts.catalog.rows.base import Fact
from upright.facts.catalog.rows.model import Artifact, ModelRow, SchemeRow
from upright.facts.records.model import Model
from upright.models.deriving.catalogue_models import record

_REPACKED = re.compile(r"_R[48]$", re.IGNORECASE)
"""Rows interleaved for the processor: the same bits, which the fork alone loads."""
_MXFP4_BITS = 4.25


def gguf_of_type(row: ModelRow, text: str) -> Model | None:
    """None if what follows the colon is no GGUF type that the catalogue knows, or the model's shapes are not known."""
    repository, _, quant = text.partition(":")
    scheme = _scheme(_REPACKED.sub("", quant))
    if scheme is None:
        return None
    artifact = Artifact(
        repository=repository if "/" in repository else row.repository,
        quant=quant.upper(),
        format="gguf",
        scheme=f"GGUF {quant.upper()}",
        size_bytes=_fact(None, scheme),
        engines=(),
        expert_bits=_fact(_expert_bits(row, scheme), scheme),
        other_bits=_fact(scheme.other_bits, scheme),
    )
    fork_only = scheme.fork_only or _REPACKED.search(quant) is not None
    model = record(row, artifact)
    return model.model_copy(update={"basis": "derived", "ik_only": fork_only}) if model is not None else None


def _expert_bits(row: ModelRow, scheme: SchemeRow) -> float | None:
    """Files of gpt-oss called Q4_K_M and Q8_0 share its MXFP4 experts; of other experts in four bits none gets more."""
    config = catalog.configuration(row.configuration) if row.configuration is not None else {}
    declared = config.get("quantization_config") or (config.get("text_config") or {}).get("quantization_config") or {}
    if declared.get("quant_method") == "mxfp4":
        return _MXFP4_BITS
    native = config.get("expert_dtype") == "fp4" or "mxfp4" in (declared.get("format") or "")
    return min(scheme.expert_bits or _MXFP4_BITS, _MXFP4_BITS) if native else scheme.expert_bits


def _scheme(gguf_type: str) -> SchemeRow | None:
    schemes = cast("Mapping[str, SchemeRow]", catalog.rows("schemes"))
    return next((row for name, row in schemes.items() if row.expert_bits and name.lower() == gguf_type.lower()), None)


def _fact(bits: float | None, scheme: SchemeRow) -> Fact:
    return Fact(value=bits, grade=scheme.grade, source=f"schemes/{scheme.id}", note=None)
