"""Numbers of layers -> the shortest pattern that matches exactly those, for --override-tensor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def layers_pattern(layers: Iterable[int]) -> str:
    r"""`[1-9]|5[2-9]|60`: numbers that share all but the last digit become one class."""
    tens: dict[int, list[int]] = {}
    for layer in sorted(set(layers)):
        tens.setdefault(layer // 10, []).append(layer % 10)
    return "|".join(f"{ten or ''}{_digits(digits)}" for ten, digits in tens.items())


def experts_pattern(layers: Sequence[int]) -> str:
    """Routed experts of these layers, whether gate and up are stored apart or fused; shared experts are not meant."""
    return rf"blk\.({layers_pattern(layers)})\.ffn_.*_exps"


def _digits(digits: Sequence[int]) -> str:
    if len(digits) == 1:
        return str(digits[0])
    if len(digits) > 2 and digits[-1] - digits[0] == len(digits) - 1:
        return f"[{digits[0]}-{digits[-1]}]"
    return f"[{''.join(map(str, digits))}]"
