"""Run by vLLM's own interpreter: which attention backend its CPU platform takes, and what that says to cache types.

Words of the command are cache types. AMX is what the processor is said to have; the platform's choice, the backend's
class and its assertion are vLLM's. Only the store itself (a kernel that needs AMX) is replaced, where it is reached.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
from vllm.platforms.cpu import CpuPlatform
from vllm.utils.import_utils import resolve_obj_by_qualname
from vllm.v1.attention.selector import AttentionSelectorConfig

from vllm import _custom_ops

HEAD, ROPE, BLOCK = 576, 64, 128


def main() -> None:
    answer: dict[str, Any] = {}
    stored: list[tuple[torch.dtype, ...]] = []
    _custom_ops.amx_mla_concat_and_cache = lambda *tensors: stored.append(tuple(each.dtype for each in tensors))
    for amx in (True, False):
        torch.cpu._is_amx_tile_supported = lambda said=amx: said
        taken = {kind: backend(mla=kind == "mla") for kind in ("mla", "other")}
        verdicts = {dtype: store(taken["mla"], dtype) for dtype in sys.argv[1:]}
        answer["amx" if amx else "plain"] = {
            "backends": {kind: found.get_name() for kind, found in taken.items()},
            "stores": verdicts,
        }
    assert stored, "the backend for AMX stored nothing"
    print(json.dumps(answer))


def backend(*, mla: bool) -> Any:
    """As an attention layer asks for it (vllm/v1/attention/selector.py)."""
    asked = AttentionSelectorConfig(HEAD if mla else 128, torch.bfloat16, "auto", None, use_mla=mla)
    return resolve_obj_by_qualname(CpuPlatform.get_attn_backend_cls(None, asked))


def store(taken: Any, cache_dtype: str) -> str:
    """The first tokens go into the cache: empty if it takes them, else what it raises."""
    impl = object.__new__(taken.get_impl_cls())
    cache = torch.zeros(2, BLOCK, HEAD, dtype=torch.bfloat16)
    tokens, rotary = torch.ones(3, HEAD - ROPE, dtype=torch.bfloat16), torch.ones(3, 1, ROPE, dtype=torch.bfloat16)
    try:
        impl.do_kv_cache_update(tokens, rotary, cache, torch.arange(3), cache_dtype, torch.ones(()))
    except AssertionError as error:
        return f"AssertionError: {error}"
    return ""


if __name__ == "__main__":
    main()
