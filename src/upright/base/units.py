"""Numbers <-> the words people read and type.

Memory is binary (GiB), files and bandwidth are decimal (GB), as the field's tools print them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from math import inf

KIB = 1024
MIB = 1024**2
GIB = 1024**3
GB = 1000**3
LARGEST = 1e15
"""Beyond any machine: no number that a person types of anything."""

_BINARY = (("TiB", 1024**4), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB))
_DECIMAL = (("TB", 1000**4), ("GB", GB), ("MB", 1000**2), ("kB", 1000))
_TOKENS = re.compile(r"([0-9]+|[0-9]{1,3}(?:[,_][0-9]{3})+|[0-9]+\.[0-9]+(?=\s*[km]))\s*([km]?)", re.IGNORECASE)
_MEMORY = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]i?b?|b)?", re.IGNORECASE)
_BANDWIDTH = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(?:([gt])b(?:/s|ps)?)?", re.IGNORECASE)
_CHANNELS = re.compile(r"([0-9]+)\s*x\s*((?:lp)?ddr[0-9])[a-z]*-?\s*([0-9]{3,5})", re.IGNORECASE)
_MODULES = re.compile(r"((?:lp)?ddr[0-9])[a-z]*[- ]?([0-9]{3,5})(?:mhz|mt/s)?", re.IGNORECASE)
_HOW_MANY = re.compile(r"([0-9]+|single|dual|quad|six|octa|eight|twelve)(?:[- ]?channels?|x)", re.IGNORECASE)
# The most channels of 64 bits that one socket has: EPYC 7002 and Xeon of 2021; EPYC 9004 and Xeon 6900P.
_SOCKET_CHANNELS = {"ddr4": 8, "ddr5": 12}
_MOST_CHANNELS = 48
"""Of four sockets with twelve each (assumed: a bound against slips of the finger)."""
_TRANSFERS = {
    "ddr3": (800, 3_200), "ddr4": (1_600, 5_600), "ddr5": (3_200, 12_800), "lpddr4": (1_600, 4_800),
    "lpddr5": (4_800, 10_700),
}  # fmt: skip
"""Millions a second, from the slowest to beyond the fastest that is sold (assumed: bounds against slips too)."""
_NUMBERS = {"single": 1, "dual": 2, "quad": 4, "six": 6, "octa": 8, "eight": 8, "twelve": 12}
_CHANNEL_BYTES = 8
_SECONDS = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d)?", re.IGNORECASE)


def format_memory(count_bytes: float) -> str:
    """`8.62 GiB`: binary units, three significant digits or more."""
    return _scaled(count_bytes, _BINARY, 1024)


def format_size(count_bytes: float) -> str:
    """`595 GB`: decimal units, for files and traffic."""
    return _scaled(count_bytes, _DECIMAL, 1000)


def format_parameters(count: int) -> str:
    """`1.11 million`, `1,026.9 billion`: a trillion is said in billions, as model names do."""
    if count < 1_000_000_000:
        return f"{count / 1e6:,.2f} million"
    return f"{count / 1e9:,.1f} billion"


def format_tokens(count: int) -> str:
    """`65,536`."""
    return f"{count:,}"


def format_duration(seconds: float) -> str:
    """`35 ms`, `1.4 s`, `12 s`, `3 min`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    larger, of, smaller, left = (
        (whole // 60, "min", "s", whole % 60) if whole < 3600 else (whole // 3600, "h", "min", whole % 3600 // 60)
    )
    return f"{larger} {of} {left} {smaller}" if left else f"{larger} {of}"


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


class Bandwidth(float):
    """GB/s of system RAM by its channels or its processor, and of how many sockets that is."""

    sockets: int

    def __new__(cls, gb: float, sockets: int = 1) -> Bandwidth:
        made = super().__new__(cls, gb)
        made.sockets = sockets
        return made


def _of_channels(channels: int, kind: str, mega_transfers: int) -> Bandwidth:
    least, most = _TRANSFERS.get(kind.lower(), (1, 0))
    if not (0 < channels <= _MOST_CHANNELS and least <= mega_transfers <= most):
        raise ValueError(f"{channels}x{kind.upper()}-{mega_transfers} is not memory that is sold; 8xDDR5-6400 is")
    sockets = 2 if channels > _SOCKET_CHANNELS.get(kind.lower(), channels) else 1
    return Bandwidth(channels * mega_transfers * _CHANNEL_BYTES / 1000, sockets)


def parse_bandwidth(text: str) -> float:
    """`409.6`, `460GB/s`, `8xDDR5-6400`, `DDR5-5600 dual channel` (channels of 64 bits) in GB/s."""
    if channels := _CHANNELS.fullmatch(text.strip()):
        return _of_channels(int(channels[1]), channels[2], int(channels[3]))
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
    return _of_channels(channels, modules[1], int(modules[2]))


def parse_duration(text: str) -> float:
    """`90`, `90s`, `30m`, `2h`, `50ms` in seconds."""
    match = _SECONDS.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a time; write 90s, 30m or 2h")
    return float(match[1]) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}[(match[2] or "s").lower()]


def parse_counts(text: str) -> tuple[int, ...]:
    """`1,4,16`: whole numbers, rising."""
    try:
        counts = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"{text!r} is not a list of numbers; write 1,4,16") from None
    if min(counts) < 1:
        raise ValueError(f"{min(counts)} requests at once make no load; the least is 1")
    return tuple(sorted(set(counts)))


def parse_cells(text: str) -> tuple[tuple[int, int], ...]:
    """`512x1,8kx4`: tokens of a prompt by requests at once."""
    cells = []
    for part in text.split(","):
        prompt, _, users = part.rpartition("x")
        try:
            cells.append((parse_tokens(prompt), int(users)))
        except ValueError:
            raise ValueError(f"{part!r} is no cell; write 8kx4: tokens of a prompt by requests at once") from None
        if cells[-1][1] < 1:
            raise ValueError(f"{part!r}: the least is one request at once")
    return tuple(dict.fromkeys(cells))


def parse_rates(text: str) -> tuple[float, float]:
    """`300,20`: tokens a second, read and written."""
    try:
        read, written = (float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"{text!r} is no pair of rates; write 300,20") from None
    if not (0 < read < inf and 0 < written < inf):
        raise ValueError(f"{text!r}: both rates are numbers above zero")
    return read, written


def parse_named_numbers(text: str, known: tuple[str, ...] = ()) -> dict[str, float]:
    """`ttft=5s,rate=20`: names and numbers; 5s, 30m and 64k are numbers too."""
    numbers = {}
    for part in text.split(","):
        spelled, _, amount = part.partition("=")
        name = spelled.strip().replace("-", "_")
        if known and name not in known:
            raise ValueError(f"{name or part!r} is not one of {', '.join(known)}")
        if (number := _number(amount.strip())) is None:
            raise ValueError(f"{part!r} is no name and number; write {(known or ('turns',))[0]}=5")
        if not abs(number) < LARGEST:
            raise ValueError(f"{amount} is no number of anything")
        numbers[name] = number
    return numbers


def _number(text: str) -> float | None:
    readers: tuple[Callable[[str], float], ...] = (float, parse_duration, parse_tokens)
    for read in readers:
        with suppress(ValueError):
            return read(text)
    return None


def _scaled(count: float, units: tuple[tuple[str, int], ...], base: int) -> str:
    for name, factor in units:
        if round(abs(count) * base / factor) >= base:  # what would be written as 1024 MiB is a GiB
            scaled = count / factor
            digits = 0 if abs(scaled) >= 99.95 else 1 if abs(scaled) >= 9.995 else 2
            return f"{scaled:.{digits}f} {name}"
    return f"{count:.0f} B"
