"""How much smaller or larger a GGUF may be whose size follows from its quant type."""

from __future__ import annotations

from upright.facts.records.model import LinearAttention, Model

# Of files whose size is derived from their type: the smallest and the largest of 45 published ones. Of models without
# experts the mix of types weighs more; with recurrent layers builders leave more of them in wider types, and one file
# has its draft layer too. Files that only the fork loads are mixed by hand, and one was larger still.
# Unsloth's dynamic types are mixed anew for every model: UD-Q2_K_XL has 2.3 bits an expert weight here and 2.9 there.
SMALLEST, LARGEST, LARGEST_DENSE, LARGEST_RECURRENT, LARGEST_OF_FORK = 0.88, 1.015, 1.03, 1.031, 1.055
SMALLEST_DYNAMIC, LARGEST_DYNAMIC = 0.8, 1.021


def largest_size(model: Model) -> float:
    """Of builds of one type, in times of what is planned."""
    if model.ik_only:
        return LARGEST_OF_FORK
    if model.architecture.experts is None:
        return LARGEST_DENSE
    if any(isinstance(kind, LinearAttention) for kind in model.architecture.attention):
        return LARGEST_RECURRENT
    return LARGEST_DYNAMIC if _dynamic(model) else LARGEST


def smallest_size(model: Model) -> float:
    """Of builds of one type, in times of what is planned."""
    return SMALLEST_DYNAMIC if _dynamic(model) else SMALLEST


def _dynamic(model: Model) -> bool:
    return "UD-" in (model.quantisation or "")
