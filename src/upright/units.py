"""Numbers <-> the words people read and type.

Memory is binary (GiB), files and bandwidth are decimal (GB), as the field's tools print them.
"""

from __future__ import annotations

import re

KIB = 1024
MIB = 1024**2
GIB = 1024**3
GB = 1000**3

_BINARY = (("TiB", 1024**4), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB))
_DECIMAL = (("TB", 1000**4), ("GB", GB), ("MB", 1000**2), ("kB", 1000))
_TOKENS = re.compile(r"([0-9]+|[0-9]{1,3}(?:[,_][0-9]{3})+|[0-9]+\.[0-9]+(?=\s*[km]))\s*([km]?)", re.IGNORECASE)
_MEMORY = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]i?b?|b)?", re.IGNORECASE)
_BANDWIDTH = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(?:([gt])b(?:/s|ps)?)?", re.IGNORECASE)
_CHANNELS = re.compile(r"([0-9]+)\s*x\s*(?:lp)?ddr[0-9][a-z]*-?\s*([0-9]{3,5})", re.IGNORECASE)
_MODULES = re.compile(r"(?:lp)?ddr[0-9][a-z]*[- ]?([0-9]{3,5})(?:mhz|mt/s)?", re.IGNORECASE)
_HOW_MANY = re.compile(r"([0-9]+|single|dual|quad|six|octa|eight|twelve)(?:[- ]?channels?|x)", re.IGNORECASE)
_NUMBERS = {"single": 1, "dual": 2, "quad": 4, "six": 6, "octa": 8, "eight": 8, "twelve": 12}
_CHANNEL_BYTES = 8
_SECONDS = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d)?", re.IGNORECASE)


def memory(count_bytes: float) -> str:
    """`8.62 GiB`: binary units, three significant digits or more."""
    return _scaled(count_bytes, _BINARY, 1024)


def size(count_bytes: float) -> str:
    """`595 GB`: decimal units, for files and traffic."""
    return _scaled(count_bytes, _DECIMAL, 1000)


def parameters(count: int) -> str:
    """`1.11 million`, `1,026.9 billion`: a trillion is said in billions, as model names do."""
    if count < 1_000_000_000:
        return f"{count / 1e6:,.2f} million"
    return f"{count / 1e9:,.1f} billion"


def tokens(count: int) -> str:
    """`65,536`."""
    return f"{count:,}"


def duration(seconds: float) -> str:
    """`35 ms`, `1.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def parse_tokens(text: str) -> int:
    """`65536`, `64k` (binary, as context lengths are), `1m`."""
    match = _TOKENS.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a number of tokens; write 65536 or 64k")
    number, factor = match[1].replace(",", "").replace("_", ""), {"": 1, "k": 1024, "m": 1024**2}[match[2].lower()]
    return round(float(number) * factor) if "." in number else int(number) * factor


def parse_memory(text: str) -> float:
    """`512`, `512GB`, `512GiB`, `1.5TB` in GiB: modules are sold in binary gigabytes, whatever their label says."""
    match = _MEMORY.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not an amount of memory; write 512GB")
    scale = {"b": -3, "k": -2, "m": -1, "g": 0, "t": 1}[(match[2] or "g")[0].lower()]
    return float(match[1]) * 1024.0**scale


def parse_bandwidth(text: str) -> float:
    """`409.6`, `460GB/s`, `8xDDR5-6400`, `DDR5-5600 dual channel` (channels of 64 bits) in GB/s."""
    if channels := _CHANNELS.fullmatch(text.strip()):
        return int(channels[1]) * int(channels[2]) * _CHANNEL_BYTES / 1000
    if (rate := _in_words(text)) is not None:
        return rate
    match = _BANDWIDTH.fullmatch(text.strip())
    if match is None:
        raise ValueError(
            f'{text!r} is not a memory bandwidth; write 460GB/s, 8xDDR5-6400 or a processor such as "EPYC 9554"'
        )
    return float(match[1]) * (1000 if (match[2] or "").lower() == "t" else 1)


def _in_words(text: str) -> float | None:
    """`DDR5-5600 dual channel`, `12 channels DDR5-4800`: the modules and how many channels, in any order."""
    if (modules := _MODULES.search(text)) is None:
        return None
    rest = f"{text[: modules.start()]} {text[modules.end() :]}".strip(" ,")
    if (count := _HOW_MANY.fullmatch(rest)) is None:
        return None
    channels = _NUMBERS.get(count[1].lower()) or int(count[1])
    return channels * int(modules[1]) * _CHANNEL_BYTES / 1000


MEASURES = {"memory": parse_memory, "bandwidth": parse_bandwidth}
"""What a person types of a quantity -> GiB, GB/s."""


def parse_duration(text: str) -> float:
    """`90`, `90s`, `30m`, `2h`, `50ms` in seconds."""
    match = _SECONDS.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a time; write 90s, 30m or 2h")
    return float(match[1]) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}[(match[2] or "s").lower()]


def _scaled(count: float, units: tuple[tuple[str, int], ...], base: int) -> str:
    for name, factor in units:
        if round(abs(count) * base / factor) >= base:  # what would be written as 1024 MiB is a GiB
            scaled = count / factor
            digits = 0 if abs(scaled) >= 99.95 else 1 if abs(scaled) >= 9.995 else 2
            return f"{scaled:.{digits}f} {name}"
    return f"{count:.0f} B"
