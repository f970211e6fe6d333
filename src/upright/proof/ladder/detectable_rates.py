"""The smallest fault rate that a number of samples would have shown."""

from __future__ import annotations

import math

CONFIDENCE = 0.95


def samples_to_see(rate: float, confidence: float = CONFIDENCE) -> int:
    """How many answers it takes to meet a fault of that rate at least once, with that confidence: 0.5 % takes 598."""
    if not 0 < rate <= 1:
        raise ValueError(f"{rate} is no rate")
    return 1 if rate == 1 else math.ceil(math.log(1 - confidence) / math.log(1 - rate))


def rate_ruled_out(samples: int, confidence: float = CONFIDENCE) -> float:
    """With that many answers and no fault, a fault more frequent than this would have been seen."""
    return 1.0 if samples < 1 else 1 - (1 - confidence) ** (1 / samples)


def ruled_out_words(samples: int) -> str:
    return f"a fault in more than {100 * rate_ruled_out(samples):.2g} % would have been seen ({CONFIDENCE:.0%} sure)"
