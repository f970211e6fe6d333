"""Files of an engine's attention + a capability -> how far each is from a plain softmax, in Triton's interpreter.

    TRITON_INTERPRET=1 python interpreted.py vllm|sglang 12.0 FILE ...

Runs in an environment with torch and Triton, without the engine: what else a file imports is stubbed, and says that the
GPU is the one that was named. One JSON object a file: the largest error by shape, what was launched, a digest of the
numbers. The interpreter runs the arithmetic of a kernel; it never sees shared memory, warps or races.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
import triton
import triton.language as tl

KEY, LATENT, PAGE = 576, 512, 16


def stub(name: str, **members: Any) -> None:
    """A module with these members, and its parents."""
    parts = name.split(".")
    for length in range(1, len(parts) + 1):
        sys.modules.setdefault(".".join(parts[:length]), ModuleType(".".join(parts[:length])))
    for member, content in members.items():
        setattr(sys.modules[name], member, content)


def pretend(major: int, minor: int) -> None:
    platform = SimpleNamespace(
        is_rocm=lambda: False,
        is_device_capability=lambda wanted: wanted in ((major, minor), 10 * major + minor),
        is_device_capability_family=lambda wanted: wanted // 10 == major,
    )
    stub("vllm.platforms", current_platform=platform)
    stub("vllm.triton_utils", tl=tl, triton=triton)
    stub("sglang.srt.utils", is_cuda=lambda: True, is_hip=lambda: False)
    stub("sglang.srt.layers.attention.triton_ops.prefill_attention", context_attention_fwd=None)
    torch.cuda.get_device_capability = lambda *_: (major, minor)


class Watched:
    """A kernel that notes the constants of its launches."""

    def __init__(self, kernel: Any, launches: list[dict[str, int]]) -> None:
        self.kernel, self.launches = kernel, launches

    def __getitem__(self, grid: Any) -> Any:
        def launch(*arguments: Any, **options: Any) -> None:
            self.launches.append({name: options[name] for name in ("BLOCK_N", "num_stages") if name in options})
            self.kernel[grid](*arguments, **options)

        return launch


def softmax(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float) -> torch.Tensor:
    """One query of every head, (heads, key) on (tokens, key), in float32."""
    return torch.softmax(query.float() @ keys.float().T * scale, dim=-1) @ values.float()


def decode(module: ModuleType, heads: int, lengths: list[int], splits: int, cache_type: torch.dtype) -> Any:
    """vLLM's MLA decode: paged, shuffled, split."""
    seed = torch.Generator().manual_seed(heads + splits)
    most = -(-max(lengths) // PAGE)
    pages = torch.randperm(most * len(lengths), generator=seed).int().reshape(len(lengths), most)
    query = torch.randn(len(lengths), heads, KEY, generator=seed).half()
    cache = torch.randn(pages.numel(), PAGE, 1, KEY, generator=seed).half().to(cache_type)
    answer = torch.zeros(len(lengths), heads, LATENT, dtype=torch.half)
    module.decode_attention_fwd(
        query, cache, cache[..., :LATENT], answer, torch.zeros(len(lengths), heads, dtype=torch.half), pages,
        torch.tensor(lengths, dtype=torch.int32), torch.zeros(len(lengths), heads, splits, LATENT + 1), splits, 0.05,
        PAGE, is_mla=True,
    )  # fmt: skip
    wanted = []
    for place, length in enumerate(lengths):
        keys = cache[pages[place].long()].half().reshape(-1, KEY)[:length]
        wanted.append(softmax(query[place], keys, keys[:, :LATENT], 0.05))
    return answer, torch.stack(wanted)


def extend(module: ModuleType, heads: int, prefixes: list[int], extends: list[int], key: int, value: int) -> Any:
    """SGLang's extend: new tokens on a prefix that is scattered over the cache, causal among themselves."""
    seed = torch.Generator().manual_seed(key + heads)
    slots, tokens = sum(prefixes) + 7, sum(extends)
    cache_k, cache_v = torch.randn(slots, 1, key, generator=seed), torch.randn(slots, 1, value, generator=seed)
    query = torch.randn(tokens, heads, key, generator=seed)
    keys, values = torch.randn(tokens, 1, key, generator=seed), torch.randn(tokens, 1, value, generator=seed)
    places = torch.randperm(slots, generator=seed)[: sum(prefixes)]
    starts, prefix_starts = (torch.tensor([0, *counts]).cumsum(0).int() for counts in (extends, prefixes))
    answer = torch.zeros(tokens, heads, value)
    module.extend_attention_fwd(
        query, keys, values, answer, cache_k, cache_v, starts, prefix_starts, places, None, True, None, max(extends),
        sm_scale=0.05,
    )  # fmt: skip
    wanted = torch.zeros_like(answer)
    for place in range(len(extends)):
        before = places[prefix_starts[place] : prefix_starts[place + 1]]
        first = int(starts[place])
        for token in range(first, int(starts[place + 1])):
            seen_k = torch.cat([cache_k[before, 0], keys[first : token + 1, 0]])
            seen_v = torch.cat([cache_v[before, 0], values[first : token + 1, 0]])
            wanted[token] = softmax(query[token], seen_k, seen_v, 0.05)
    return answer, wanted


SHAPES = {
    "vllm": {
        "8 heads, fp8 cache, 1 split": lambda m: decode(m, 8, [37, 5], 1, torch.float8_e4m3fn),
        "16 heads, fp8 cache, 4 splits": lambda m: decode(m, 16, [70, 33, 1], 4, torch.float8_e4m3fn),
        "64 heads, fp8 cache, 8 splits": lambda m: decode(m, 64, [130], 8, torch.float8_e4m3fn),
        "16 heads, fp16 cache, 4 splits": lambda m: decode(m, 16, [70, 33], 4, torch.half),
    },
    "sglang": {
        "8 heads, 576/512": lambda m: extend(m, 8, [40, 0], [9, 35], 576, 512),
        "4 heads, 192/128": lambda m: extend(m, 4, [70], [65], 192, 128),
        "4 heads, 128/128": lambda m: extend(m, 4, [3], [130], 128, 128),
    },
}
KERNELS = {"vllm": "_fwd_grouped_kernel_stage1", "sglang": "_fwd_kernel"}


def measured(engine: str, path: str) -> dict[str, Any]:
    spec = importlib.util.spec_from_file_location(f"file_{hashlib.sha256(path.encode()).hexdigest()[:8]}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    launches: list[dict[str, int]] = []
    setattr(module, KERNELS[engine], Watched(getattr(module, KERNELS[engine]), launches))
    errors, digest = {}, hashlib.sha256()
    for shape, run in SHAPES[engine].items():
        answer, wanted = run(module)
        digest.update(answer.numpy().tobytes())
        errors[shape] = float((answer.float() - wanted).abs().max())
    return {"errors": errors, "launches": launches, "digest": digest.hexdigest(), "triton": triton.__version__}


def main() -> None:
    engine, capability, *paths = sys.argv[1:]
    major, _, minor = capability.partition(".")
    pretend(int(major), int(minor))
    for path in paths:
        print(json.dumps(measured(engine, path)))


if __name__ == "__main__":
    main()
