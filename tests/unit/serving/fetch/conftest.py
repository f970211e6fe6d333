"""A repository on a loopback hub, a cache of one's own, and small chunks."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.loopback_hub import LoopbackHub
from upright.models.reading.hub import Hub
from upright.serving.fetch import download, partial

REPO = "moonshotai/Kimi"
CHUNK_BYTES = 64 << 10
SHARDS = 3


@pytest.fixture(autouse=True)
def _cache_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(partial, "CHUNK_BYTES", CHUNK_BYTES)
    monkeypatch.setattr(download, "_TICK_SECONDS", 0.01)
    monkeypatch.setattr(download, "WRITE_BYTES", 16 << 10)


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Safetensors in three shards with all that lies about in such a repository, and two GGUF quants."""
    folder, noise = tmp_path_factory.mktemp("repository"), random.Random(7)
    for number in range(1, SHARDS + 1):
        name = f"model-{number:05d}-of-{SHARDS:05d}.safetensors"
        (folder / name).write_bytes(noise.randbytes(300_000 + number))
    for name, text in {
        "config.json": json.dumps({"model_type": "kimi"}),
        "tokenizer_config.json": "{}",
        "model.safetensors.index.json": "{}",
        "chat_template.jinja": "{{ messages }}",
        "modeling_kimi.py": "pass\n",
        "tiktoken.model": "a 1\n",
        "merges.txt": "",
        "README.md": "# Kimi",
        "requirements.txt": "torch",
        "LICENSE.txt": "yes",
        "figures/chart.json": "{}",
        "pytorch_model.bin.index.json": "{}",
        "original/consolidated.00.safetensors": "old",
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    for quant in ("IQ3_K", "Q8_0"):
        (folder / quant).mkdir()
        for part in (1, 2):
            (folder / quant / f"Kimi-{quant}-0000{part}-of-00002.gguf").write_bytes(noise.randbytes(200_000))
    return folder


@pytest.fixture
def hub(repository: Path) -> Iterator[LoopbackHub]:
    with LoopbackHub(repository).running() as running:
        yield running


def client(hub: LoopbackHub, token: str | None = None, silence_seconds: float = 30) -> Hub:
    return Hub(hub.hub_url, token, silence_seconds=silence_seconds, sleep=lambda _: None)
