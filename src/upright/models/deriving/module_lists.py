"""Lists of modules in a quantization_config, matched against our tensor names.

Checkpoints call the same part otherwise (`ffn`, `block_sparse_moe`, `experts.7.w1`); both sides come to one name.
An expression of the file is foreign: one that could take for ever is not tried, and what it names is not understood.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import translate
from functools import lru_cache
from typing import Any, NamedTuple

_LIST_NAMES = ("ignore", "modules_to_not_convert", "exclude_modules", "ignored_layers")
_PREFIX = re.compile(r"^(model\.|language_model\.|backbone\.|text_model\.|llm\.)+")
_PARTS = (
    (re.compile(r"(?<![\w*])(ffn|block_sparse_moe|feed_forward)(?=[.*]|$)"), "mlp"),
    (re.compile(r"(?<![\w*])attn(?=[.*]|$)"), "self_attn"),
    (re.compile(r"\bshared_expert(?=[.*]|$)"), "shared_experts"),
    (re.compile(r"\bexperts\.\d+(?=[.*]|$)"), "experts"),
    (re.compile(r"\bin_proj_(qkv|z)$"), "in_proj_qkvz"),
    (re.compile(r"\bin_proj_[ab]$"), "in_proj_ba"),
    (re.compile(r"\bindex_([qk]_proj)\b"), r"indexer.\1"),
    # Nemotron-H calls whatever a block has its mixer.
    (re.compile(r"\bmixer\.(?=(experts|shared_experts|gate|up_proj|down_proj|fc[12]_latent_proj)(?:[.*]|$))"), "mlp."),
    (re.compile(r"\bmixer\.(?=[qkvo]_proj(?:[.*]|$))"), "self_attn."),
    (re.compile(r"\bw1$"), "gate_proj"),
    (re.compile(r"\bw2$"), "down_proj"),
    (re.compile(r"\bw3$"), "up_proj"),
)
# An expression cannot be brought to our names, so our names are brought to its: what files and engines call a part.
_OTHER_PARTS = {"mlp": "ffn", "self_attn": "attn"}
_OTHER_LEAVES = {
    "q_a_proj": "fused_wqa_wkv", "kv_proj": "fused_wqa_wkv", "q_b_proj": "wq_b", "o_a_proj": "wo_a", "o_b_proj": "wo_b",
    "gate_proj": "w1", "down_proj": "w2", "up_proj": "w3",
}  # fmt: skip
_MOST_PATTERNS = 20_000
_MOST_CHARACTERS, _MOST_REPEATS = 400, 6
_NESTED = re.compile(r"\)[*+{]|[*+}][*+{]|\\[1-9]|\(\?[^:]")
_REPEATS = re.compile(r"(?<!\\)[*+{]")
_NOTHING = re.compile(r"(?!)")


class Targets(NamedTuple):
    """Which modules a group of a configuration speaks of."""

    all_linear: bool
    patterns: tuple[re.Pattern[str], ...]
    names: frozenset[str]

    def match(self, path: str) -> bool:
        stem = path.rpartition(".")[0]
        return path in self.names or stem in self.names or _any_matches(self.patterns, path)


class SkippedModules:
    """Modules that the method does not touch. Lists are long: names and beginnings are looked up, not matched."""

    def __init__(self, declared: Mapping[str, Any]) -> None:
        listed = next((names for name in _LIST_NAMES if isinstance(names := declared.get(name), list)), [])
        names = [str(name) for name in listed[:_MOST_PATTERNS]]
        plain = [bare(name) for name in names if not name.startswith("re:")]
        self._names = frozenset(name for name in plain if "*" not in name)
        self._beginnings = tuple(name[:-1] for name in plain if name.find("*") == len(name) - 1 > 0)
        rest = [name for name in names if name.startswith("re:") or 0 <= bare(name).find("*") < len(bare(name)) - 1]
        self._patterns = tuple(pattern(name) for name in rest)
        self.understood = _NOTHING not in self._patterns

    def holds(self, path: str) -> bool:
        if path.startswith(self._beginnings) or _any_matches(self._patterns, path):
            return True
        if not self._names:
            return False
        parts = path.split(".")
        count = len(parts)
        return any(
            ".".join(parts[first:last]) in self._names for first in range(count) for last in range(first + 1, count + 1)
        )


def _any_matches(patterns: tuple[re.Pattern[str], ...], path: str) -> bool:
    return bool(patterns) and any(known.search(name) for name in _spellings(path) for known in patterns)


@lru_cache(maxsize=4096)
def _spellings(path: str) -> tuple[str, ...]:
    """The name here, and what DeepSeek's files and vLLM's modules call the same."""
    parts = [_OTHER_PARTS.get(part, part) for part in path.split(".")]
    names = (path, ".".join(parts), ".".join([*parts[:-1], _OTHER_LEAVES.get(parts[-1], parts[-1])]))
    return tuple(dict.fromkeys(names))


def targets_of(listed: Any) -> Targets:
    names = [str(name) for name in listed[:_MOST_PATTERNS]] if isinstance(listed, list) else ["Linear"]
    patterns = tuple(pattern(name) for name in names if name.startswith("re:"))
    exact = frozenset(bare(name) for name in names if not name.startswith("re:"))
    return Targets("Linear" in names, patterns, exact)


@lru_cache(maxsize=4096)
def pattern(text: str) -> re.Pattern[str]:
    """`re:` is an expression, `*` a wildcard; a bare name is a module, or a part of its path."""
    if text.startswith("re:"):
        return _expression(text[3:])
    name = bare(text)
    if "*" in name:
        return re.compile(f"^{translate(name)}")
    return re.compile(rf"(^|\.){re.escape(name)}(\.|$)")


def _expression(text: str) -> re.Pattern[str]:
    if len(text) > _MOST_CHARACTERS or _NESTED.search(text) or len(_REPEATS.findall(text)) > _MOST_REPEATS:
        return _NOTHING
    try:
        return re.compile(text)
    except re.error:
        return _NOTHING


def bare(name: str) -> str:
    """Without what a wrapper puts before it, in the names that tensors have here."""
    name = _PREFIX.sub("", name)
    for others, ours in _PARTS:
        name = others.sub(ours, name)
    return name
