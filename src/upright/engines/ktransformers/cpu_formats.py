"""How routed experts are stored -> the kernel that reads them in system RAM, and what the CPU must have."""

from __future__ import annotations

import re

from upright.engines.facets.spread import HostFormat
from upright.facts.records.model import Model
from upright.facts.records.plan import Plan

# kt-kernel/README.md, "Backends": instruction sets by method. Flags are named as Linux names them.
_NATIVE: tuple[tuple[str, HostFormat], ...] = (
    (r"NVFP4", HostFormat(None, ())),
    (r"MXFP4|FP4 AND FP8", HostFormat("MXFP4", ("avx512f", "avx512bw"))),
    (r"AWQ|GPTQ", HostFormat(None, ())),
    (r"INT4", HostFormat("RAWINT4", ("avx512f", "avx512bw"))),
    (r"FP8|F8_", HostFormat("FP8", ("avx512f", "avx512bw", "avx512_bf16", "avx512_vbmi"))),
    (r"BF16", HostFormat("BF16", ("avx512f", "avx512bw", "avx512_bf16"))),
)
CONVERTED = "AMXINT4 and AMXINT8 need AMX and weights converted by kt-kernel's own script"


def host_format(quantisation: str | None) -> HostFormat:
    """The method that reads the checkpoint's own experts; without one they must be converted first."""
    text = (quantisation or "BF16").upper()
    return next((known for pattern, known in _NATIVE if re.search(pattern, text)), HostFormat(None, ()))


def experts_on_gpus(plan: Plan, model: Model) -> int:
    """Of each layer, as the ledger has placed them."""
    placed = next((line.bytes for line in plan.ledger if line.device != "host" and line.term == "experts"), 0)
    experts = model.architecture.experts
    routed = sum(line.bytes for line in model.weights if line.group == "routed_experts")
    return round(placed * plan.parallel.tensor * experts.count / routed) if experts and routed else 0
