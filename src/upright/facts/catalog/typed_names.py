"""Names as people have them: from nvidia-smi, a shop's page, a hub's address, another tool.

`NVIDIA GeForce RTX 4060 Laptop GPU`, `rtx4090`, `2x 3090 24GB`, `MacBook Pro M4 Max 64GB`; `24GB 936GB/s` of a card
that no row describes; `https://huggingface.co/owner/repo`, `hf.co/owner/repo:Q4_K_M`, `qwen3:32b`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

_MACHINES = re.compile(r"\b(macbook|mac)\s+(pro|air|studio|mini)\b|\bimac\b|\bmac\b")
_NOISE = frozenset(
    {
        "nvidia", "geforce", "rtx", "gtx", "amd", "radeon", "rx", "intel", "apple", "instinct", "tesla", "quadro",
        "graphics", "gpu", "gpus", "card", "generation", "edition", "blackwell", "corporation", "vram", "gddr6",
        "gddr6x", "gddr7", "hbm2", "hbm2e", "hbm3", "hbm3e", "oam", "ac", "with", "chip",
    }
)  # fmt: skip
"""Words without which it is the same silicon."""
_SAME = {"mobile": "laptop", "notebook": "laptop"}
_MEMORY = re.compile(r"(?<![\w.])(\d{1,4})\s*(?:gb|gib|g)\b(?!\s*/?\s*p?s\b)")
_JOINED = re.compile(r"(?<=[a-z])(?=\d)|(?<=\d)(?=(?:ti|super|xtx|xt|gre|laptop|mobile|max|pro|ultra|x)\b)")
_COUNT = re.compile(r"([1-9]\d?)\s*-?\s*[x×*]\s*-?\s*(.+)|(.+?)\s*[x×*]\s*([1-9]\d?)", re.IGNORECASE)
_WORDS = re.compile(r"(single|dual|double|triple|quad|octo)[\s-]+(.+)", re.IGNORECASE)
_OF_WORD = {"single": 1, "dual": 2, "double": 2, "triple": 3, "quad": 4, "octo": 8}
_FIGURES = re.compile(
    r"(?P<memory>\d+(?:\.\d+)?)\s*gi?b\s*[,@at]*\s*(?P<rate>\d+(?:\.\d+)?)\s*(?P<unit>[gt])i?b\s*/?p?s", re.IGNORECASE
)
_NEAR = 0.06
"""Between the memory that is sold and the one that a tool prints."""


class TypedGpu(NamedTuple):
    """A GPU's name without what says nothing."""

    key: str
    memory_gb: float | None


class PlainGpu(NamedTuple):
    """A GPU by its figures alone."""

    memory_gb: float
    bandwidth_gb_s: float


def typed_gpu(name: str) -> TypedGpu:
    """`NVIDIA GeForce RTX 3060 12GB` and `rtx3060-12gb` are one name."""
    text = re.sub(r"\(r\)|\(tm\)|[®™]", " ", name.lower())
    text = re.sub(r"\bsxm\d\b", "sxm", re.sub(r"[-_+/(),]", " ", text))
    memory = _MEMORY.search(text)
    words = [word for word in _MACHINES.sub(" ", _MEMORY.sub(" ", text)).split() if word not in _NOISE]
    parts = (_SAME.get(part, part) for word in words for part in _JOINED.sub(" ", word).split())
    return TypedGpu("".join(part for part in parts if part not in _NOISE), float(memory[1]) if memory else None)


def same_memory(told_gb: float, sold_gb: float | None) -> bool:
    return sold_gb is not None and abs(told_gb - sold_gb) <= _NEAR * sold_gb


def counted(name: str) -> tuple[int, str]:
    """How many, and of what: `2x 3090`, `3090 x2`, `dual 3090`; of a name alone one."""
    if named := _WORDS.fullmatch(name):
        return _OF_WORD[named[1].lower()], named[2]
    if (match := _COUNT.fullmatch(name)) is None:
        return 1, name
    return (int(match[1]), match[2]) if match[1] else (int(match[4]), match[3])


def plain_gpu(name: str) -> PlainGpu | None:
    """`24GB 936GB/s`: a card that no row describes."""
    if (match := _FIGURES.fullmatch(name.strip())) is None:
        return None
    memory, rate = float(match["memory"]), float(match["rate"]) * (1000 if match["unit"].lower() == "t" else 1)
    return PlainGpu(memory, rate) if 0 < memory <= 1024 and 0 < rate <= 100_000 else None


_HUB = re.compile(
    r"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/(?P<repo>[\w.-]{1,96}/[\w.-]{1,96})(?P<quant>:[\w.-]{1,64})?"
    r"(?:/(?:tree|blob|resolve)/(?P<revision>[\w.-]{1,128})(?P<file>/[\w./-]{1,256})?)?/?(?:\?.*)?",
    re.ASCII,
)
_HUB_CACHE = re.compile(r".*models--(?P<owner>[\w.-]{1,96}?)--(?P<name>[\w.-]{1,96})(?:/.*)?", re.ASCII)
_STUDIO = re.compile(
    r".*\.(?:cache/)?lm-?studio/(?:hub/)?models/(?P<repo>[\w.-]{1,96}/[\w.-]{1,96})(?P<file>/.*)?", re.ASCII
)
_TYPE = re.compile(r"(?i)(?:^|[-_./])((?:ud-)?(?:i?q\d\w*|bf16|f16|mxfp4\w*|tq\d\w*))(?:-\d{5}-of-\d{5})?(?:\.gguf)?$")
_LIBRARY = re.compile(
    r"(?:ollama(?:\s+(?:run|pull))?[\s/]+)?(?:library/)?(?P<family>[a-z][\w.-]{0,63}):(?P<tag>[\w.-]{1,64})", re.ASCII
)
_TAIL = re.compile(r"(?i)[-_](instruct|it|chat|fp16|bf16|mxfp4|cloud|latest)$")
_FIRST = re.compile(r"(?:-hfr?|--hf-repo|hf download|huggingface-cli download|vllm serve|ollama (?:run|pull))\s+")


def hub_name(text: str) -> str | None:
    """`owner/repo[@revision][:QUANT]` of an address of the hub, or of a path in a cache that is not on this disk."""
    text = _FIRST.sub("", text.strip())
    if match := _HUB.fullmatch(text):
        revision = match["revision"] if match["revision"] not in (None, "main") else None
        of_file = _type_of(match["file"] or "")
        quant = match["quant"] or (f":{of_file}" if of_file else "")
        return f"{match['repo']}{f'@{revision}' if revision else ''}{quant}"
    cached = _HUB_CACHE.fullmatch(text) or _STUDIO.fullmatch(text)
    if cached is None:
        return text if text.count("/") == 1 and not text.startswith((".", "/", "~")) else None
    parts = cached.groupdict()
    repo = parts.get("repo") or f"{parts['owner']}/{parts['name']}"
    of_file = _type_of(text) if text.endswith(".gguf") else None
    return f"{repo}:{of_file}" if of_file else repo


def library_name(text: str, known: Callable[[str], bool], ids: Iterable[str]) -> str | None:
    """The model and type that a tag of ollama's library names: `qwen3:30b-a3b-q4_K_M`; None if it is of no row."""
    if (match := _LIBRARY.fullmatch(text.strip().lower())) is None:
        return None
    family, tag = match["family"], match["tag"]
    kind = _type_of(tag)
    if kind:
        tag = tag[: -len(kind)].rstrip("-_")
    while (shorter := _TAIL.sub("", f"-{tag}").removeprefix("-")) != tag:
        tag = shorter
    tag = "" if tag in ("latest", "cloud", "it", "instruct") else tag
    wanted = f"{family}-{tag}" if tag else family
    names = [name for name in ids if name == wanted or name.startswith(f"{wanted}-")]
    found = next((name for name in (wanted, f"{wanted}-instruct") if known(name)), None) or min(
        names, key=len, default=""
    )
    if not found and _WHOLE.get(family) == tag:
        found = family
    return f"{found}:{kind.upper()}" if found and kind else found or None


_WHOLE = {"deepseek-r1": "671b", "deepseek-v3": "671b", "deepseek-v3.1": "671b"}
"""The tag of all of a model, where the library has distillations under the same name, which no row describes."""


def _type_of(name: str) -> str | None:
    match = _TYPE.search(name.rstrip("/"))
    return match[1] if match else None
