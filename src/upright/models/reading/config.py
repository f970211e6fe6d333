"""config.json parsed; `models.deriving` says what it means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from upright.base.bounds.bounded_json import parse_json
from upright.base.errors import ReadError

CONFIG_LIMIT_BYTES = 4_000_000


def parse_config(text: bytes, file: str) -> Mapping[str, Any]:
    try:
        config = parse_json(text.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise ReadError(f"{file} is not JSON") from None
    if not isinstance(config, dict):
        raise ReadError(f"{file} is not a model's configuration")
    return config
