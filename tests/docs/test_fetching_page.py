"""docs/fetching.md is executed: its hub is the one on loopback."""

from __future__ import annotations

import random
from pathlib import Path

from tests.conftest import ROOT
from tests.docs.sessions import run_page, steps
from tests.loopback_hub import LoopbackHub


def test_the_page_does_what_it_shows(tmp_path: Path) -> None:
    page = ROOT / "docs/fetching.md"
    assert len(steps(page)) >= 6
    repository = tmp_path / "repository"
    repository.mkdir()
    content = random.Random(1).randbytes(1_228_384)
    for name in ("model.safetensors", "kimi-Q8_0.gguf", "kimi-IQ3_K.gguf", "pytorch_model.bin"):
        (repository / name).write_bytes(content)
    for name, text in {
        "config.json": '{"architectures": ["DeepseekV3ForCausalLM"]}',
        "tokenizer_config.json": '{"model_max_length": 4096}',
        "chat_template.jinja": "{{ messages }}",
        "README.md": "# Kimi",
        "chart.png": "",
    }.items():
        (repository / name).write_text(text)
    with LoopbackHub(repository).running() as hub:
        environment = {
            "UPRIGHT_HOME": str(tmp_path / "home"),
            "HF_HOME": str(tmp_path / "hf"),
            "HF_ENDPOINT": hub.hub_url,
        }
        complaints = run_page(page, tmp_path, environment)
    assert not complaints, "\n\n".join(complaints)
