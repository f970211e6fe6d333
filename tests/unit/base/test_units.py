"""Numbers and the words people read and type."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from upright.base.units import (
    GIB,
    format_duration,
    format_memory,
    format_size,
    format_tokens,
    parse_bandwidth,
    parse_duration,
    parse_memory,
    parse_tokens,
)

_FACTORS = {
    "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
}  # fmt: skip
_counts = st.integers(0, 10**16)
_both = pytest.mark.parametrize(("spell", "base"), [(format_memory, 1024), (format_size, 1000)])


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (9.996 * GIB, "10.0 GiB"),
        (94.97 * GIB, "95.0 GiB"),
        (99.97 * GIB, "100 GiB"),
        (1023.7 * GIB, "1.00 TiB"),
        (-3 * GIB, "-3.00 GiB"),
    ],
)
def test_memory_reads_well(count: float, words: str) -> None:
    assert format_memory(count) == words


@_both
@given(count=_counts)
@example(count=999_999_999)
@example(count=GIB - 1)
def test_a_size_says_what_it_is_to_three_digits(spell: Callable[[float], str], base: int, count: int) -> None:
    number, unit = spell(count).split()
    assert abs(float(number) * _FACTORS[unit] - count) <= 0.005 * count
    assert float(number) < base or unit.startswith("T")
    assert spell(-count).lstrip("-") == spell(count)


@_both
@given(one=_counts, other=_counts)
def test_a_larger_size_never_reads_smaller(spell: Callable[[float], str], base: int, one: int, other: int) -> None:
    small, large = sorted((one, other))
    assert _read(spell(small)) <= _read(spell(large))


@given(st.integers(0, 10**30))
def test_tokens_come_back_whole(count: int) -> None:
    assert parse_tokens(format_tokens(count)) == count
    assert parse_tokens(f" {count}k ") == parse_tokens(f"{count} K") == count * 1024
    assert parse_tokens(f"{count}m") == count * 1024**2


@pytest.mark.parametrize(("text", "count"), [("65_536", 65_536), ("1,048,576", 2**20), ("1.5k", 1536), ("0.5M", 2**19)])
def test_tokens_as_people_type_them(text: str, count: int) -> None:
    assert parse_tokens(text) == count


@pytest.mark.parametrize("text", ["", "k", "-1", "1,5", "1,5k", "12,34", "1.5", "64kb", "1e5", "٣", "inf", "_1"])
def test_what_is_no_number_of_tokens_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a number of tokens"):
        parse_tokens(text)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 ms"), (0.0354, "35 ms"), (0.9996, "1.0 s"), (9.94, "9.9 s"), (9.97, "10 s"), (59.7, "1 min"),
     (200, "3 min 20 s"), (3599.9, "1 h"), (7500, "2 h 5 min")],
)  # fmt: skip
def test_a_duration_reads_well(seconds: float, words: str) -> None:
    assert format_duration(seconds) == words


@given(st.floats(0, 1e7), st.floats(0, 1e7))
def test_a_longer_time_never_reads_shorter(one: float, other: float) -> None:
    short, long = sorted((one, other))
    assert _read(format_duration(short)) <= _read(format_duration(long))


@given(st.integers(0, 10**9), st.sampled_from(["s", "m", "h", "d", ""]))
def test_a_time_is_taken_as_typed(count: int, unit: str) -> None:
    factor = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "": 1}[unit]
    assert parse_duration(f"{count}{unit}") == parse_duration(f"{count} {unit.upper()}") == count * factor


@pytest.mark.parametrize("text", ["", "s", "-1s", "1h30", "1,5h", "soon", "1e3"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        parse_duration(text)


def _read(words: str) -> float:
    """A size or a duration back as a number."""
    factors = {**_FACTORS, "ms": 0.001, "s": 1, "min": 60, "h": 3600}
    numbers, units = words.split()[::2], words.split()[1::2]
    return sum(float(number) * factors[unit] for number, unit in zip(numbers, units, strict=True))


@pytest.mark.parametrize(
    ("text", "gibibytes"),
    [("512", 512), ("512GB", 512), ("512 GiB", 512), ("512g", 512), ("1.5TB", 1536), ("524288MiB", 512), ("2t", 2048)],
)
def test_memory_as_people_type_it(text: str, gibibytes: float) -> None:
    assert parse_memory(text) == gibibytes


@pytest.mark.parametrize(
    ("text", "gigabytes"),
    [("460", 460), ("460GB/s", 460), ("1.2TB/s", 1200), ("8xDDR5-6400", 409.6), ("12x DDR5-4800", 460.8),
     ("8xLPDDR5X-8533", 546.112), ("DDR5-5600 dual channel", 89.6), ("dual-channel DDR5-5600", 89.6),
     ("12 channels DDR5-4800", 460.8), ("DDR4-3200, quad channel", 102.4),
     ("12xDDR5-8800", 844.8), ("8xDDR3-1600", 102.4)],
)  # fmt: skip
def test_bandwidth_as_people_type_it(text: str, gigabytes: float) -> None:
    assert parse_bandwidth(text) == pytest.approx(gigabytes)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nan",
        "inf",
        "-1",
        "GB",
        "1e9999",
        "512 apples",
        "8xDDR5",
        "DDR5-5600",
        "DDR5-5600 some channels",
        "١",
        "13xDDR9-9999",
        "0xDDR5-6400",
        "99xDDR5-6400",
        "8xDDR5-640",
        "8xDDR4-12800",
        "dual channel DDR5-56000",
    ],
)
def test_what_is_no_measure_is_said(text: str) -> None:
    for parse in (parse_memory, parse_bandwidth):
        with pytest.raises(ValueError, match="is not"):
            parse(text)
