"""Targets of every engine, as tests need them."""

from __future__ import annotations

from pathlib import Path

from upright.facts.catalog.recorded_metrics import recorded_versions
from upright.serving.monitor.target import ROUTER, MetricsTarget

ENGINES = ("vllm", "sglang", "llama.cpp", "ik_llama.cpp")
KEY = Path(__file__)
"""Prometheus wants the file to be there."""


def target(
    software: str, version: str | None = None, *, speculates: bool = False, name: str | None = None
) -> MetricsTarget:
    guarded = software in ("llama.cpp", "ik_llama.cpp")
    return MetricsTarget(
        name=name or software.replace(".", "-"),
        software=software,
        version=version or recorded_versions(software)[-1],
        model="kimi-k2.6",
        address="127.0.0.1:8000",
        key_file=KEY if guarded else None,
        speculates=speculates,
    )


def everything() -> list[MetricsTarget]:
    """Every recorded version of every engine, with and without speculation, and the router."""
    return [
        target(software, version, speculates=speculates, name=f"{software}-{version}-{speculates}")
        for software in (*ENGINES, ROUTER)
        for version in recorded_versions(software)
        for speculates in ((False, True) if software != ROUTER else (False,))
    ]
