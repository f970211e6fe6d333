"""Weights packed as one engine alone reads them: the name of the packing, and what names of repositories tell."""

from __future__ import annotations

import re

WORDS = "mlx"
"""Rows in 32-bit words, declared by `quantization` of config.json."""
SUFFIXES = "mlx"
"""What such repositories have in their names beside the bits."""
SCHEMES = (
    *((re.compile(rf"mlx.*(?<!\d){bits}[-_]?bit"), f"MLX {bits}-bit") for bits in (8, 6, 5, 4, 3)),
    (re.compile(r"mlx.*mxfp4-q4"), "MLX MXFP4-Q4"),
)
"""A repository's name in lower case, its owner's too -> the row of `schemes` that stands for it."""
