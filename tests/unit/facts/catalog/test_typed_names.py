"""Names as people type them -> the rows and repositories that they mean. Spellings are those of public threads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Upright
from upright.base.errors import CatalogError
from upright.base.units import GIB
from upright.facts import catalog

BOXES = {
    "NVIDIA GeForce RTX 4060 Laptop GPU": "1x-rtx-4060-laptop",
    "RTX 4060 mobile": "1x-rtx-4060-laptop",
    "rtx4060": "1x-rtx-4060",
    "RTX 4090": "1x-rtx-4090",
    "rtx4090": "1x-rtx-4090",
    "4090": "1x-rtx-4090",
    "GeForce RTX 4090 24GB": "1x-rtx-4090",
    "RTX 4090 Laptop": "1x-rtx-4090-laptop",
    "2x 3090": "2x-rtx-3090",
    "2×RTX 3090": "2x-rtx-3090",
    "2 x RTX 3090 24GB": "2x-rtx-3090",
    "3090 x2": "2x-rtx-3090",
    "dual 3090": "2x-rtx-3090",
    "quad 3090": "4x-rtx-3090",
    "3090ti": "1x-rtx-3090-ti",
    "RTX 3060 12GB": "1x-rtx-3060",
    "3080 12gb": "1x-rtx-3080-12gb",
    "RTX 3080 10GB": "1x-rtx-3080",
    "4070 ti super": "1x-rtx-4070-ti-super",
    "RTX 4070 Ti SUPER 16GB": "1x-rtx-4070-ti-super",
    "5060 ti 16gb": "1x-rtx-5060-ti",
    "5060 ti 8gb": "1x-rtx-5060-ti-8gb",
    "RTX 5090 32GB": "1x-rtx-5090",
    "gtx 1080ti": "1x-gtx-1080-ti",
    "GTX 1060": "1x-gtx-1060-6gb",
    "Tesla P40": "1x-tesla-p40",
    "3x P40": "3x-tesla-p40",
    "Tesla V100-SXM2-32GB": "1x-tesla-v100-32gb",
    "4xV100 32GB": "4x-tesla-v100-32gb",
    "T4": "1x-tesla-t4",
    "A10G": "1x-a10g",
    "NVIDIA L4": "1x-l4",
    "NVIDIA A100-SXM4-40GB": "1x-a100-sxm-40gb",
    "A100 40GB": "1x-a100-sxm-40gb",
    "A100 80GB": "1x-a100-sxm-80gb",
    "NVIDIA A100 80GB PCIe": "1x-a100-pcie-80gb",
    "8x H100 SXM5 80GB": "8x-h100-sxm",
    "NVIDIA H100 80GB HBM3": "1x-h100-sxm",
    "H100 PCIe": "1x-h100-pcie",
    "H100 NVL": "1x-h100-nvl",
    "8xH20": "8x-h20-96gb",
    "RTX A6000": "1x-rtx-a6000",
    "2x A5000": "2x-rtx-a5000",
    "NVIDIA RTX 6000 Ada Generation": "1x-rtx-6000-ada",
    "RTX 6000 Ada": "1x-rtx-6000-ada",
    "Quadro RTX 8000": "1x-quadro-rtx-8000",
    "RTX PRO 6000 Blackwell": "1x-rtx-pro-6000-workstation",
    "4x RTX PRO 6000": "4x-rtx-pro-6000-workstation",
    "RX 7900 XTX": "1x-rx-7900-xtx",
    "7900 XTX": "1x-rx-7900-xtx",
    "AMD Radeon RX 7900 XTX 24GB": "1x-rx-7900-xtx",
    "Radeon RX 9070 XT": "1x-rx-9070-xt",
    "6700xt": "1x-rx-6700-xt",
    "MI50 32GB": "1x-mi50-32gb",
    "8x MI300X": "8x-mi300x",
    "Radeon AI PRO R9700": "1x-radeon-ai-pro-r9700",
    "Intel(R) Arc(TM) A770 Graphics": "1x-arc-a770",
    "Arc B580": "1x-arc-b580",
    "MacBook Pro M4 Max 128GB": "1x-apple-m4-max",
    "Mac Studio M3 Ultra 256GB": "1x-apple-m3-ultra-256gb",
    "M1 Max": "1x-apple-m1-max",
    "Apple M2 Ultra": "1x-apple-m2-ultra",
    "Mac mini M4 16GB": "1x-apple-m4",
    "MacBook Air M2": "1x-apple-m2",
    "Ryzen AI Max+ 395 128GB": "1x-strix-halo",
    "DGX Spark": "dgx-spark",
}
MODELS = {
    "https://huggingface.co/Qwen/Qwen3-32B": "Qwen/Qwen3-32B",
    "https://huggingface.co/Qwen/Qwen3-32B/": "Qwen/Qwen3-32B",
    "https://huggingface.co/unsloth/Kimi-K2.6-GGUF/tree/main": "unsloth/Kimi-K2.6-GGUF",
    "huggingface.co/openai/gpt-oss-120b": "openai/gpt-oss-120b",
    "hf.co/unsloth/Qwen3-30B-A3B-GGUF:Q4_K_M": "unsloth/Qwen3-30B-A3B-GGUF:Q4_K_M",
    "https://huggingface.co/a/B-GGUF/resolve/main/B-Q4_K_M-00001-of-00003.gguf?download=true": "a/B-GGUF:Q4_K_M",
    "https://huggingface.co/a/B-GGUF/blob/main/UD-Q2_K_XL/B-UD-Q2_K_XL-00001-of-00008.gguf": "a/B-GGUF:UD-Q2_K_XL",
    "https://huggingface.co/zai-org/GLM-4.7/tree/8f3c": "zai-org/GLM-4.7@8f3c",
    "-hf unsloth/gpt-oss-20b-GGUF:Q8_0": "unsloth/gpt-oss-20b-GGUF:Q8_0",
    "~/.cache/huggingface/hub/models--Qwen--Qwen3-32B/snapshots/abc": "Qwen/Qwen3-32B",
    "/home/nobody/.lmstudio/models/lmstudio-community/Q-GGUF/Q-Q4_K_M.gguf": "lmstudio-community/Q-GGUF:Q4_K_M",
    "qwen3:32b": "qwen3-32b",
    "ollama run qwen3:32b": "qwen3-32b",
    "qwen3:30b-a3b-q4_K_M": "qwen3-30b-a3b:Q4_K_M",
    "qwen3.6:27b-q8_0": "qwen3.6-27b:Q8_0",
    "gpt-oss:20b": "gpt-oss-20b",
    "gpt-oss:120b": "gpt-oss-120b",
    "nemotron-3-nano:30b": "nemotron-3-nano-30b-a3b",
    "glm-4.7-flash:latest": "glm-4.7-flash",
    "deepseek-r1:671b": "deepseek-r1",
    "llama4:scout": "llama4-scout",
    "kimi-k2.6": "kimi-k2.6",
    "kimi-k2.6:IQ3_K": "kimi-k2.6:IQ3_K",
    "moonshotai/Kimi-K2.6": "moonshotai/Kimi-K2.6",
    "deepseek-r1:32b": "deepseek-r1:32b",
    "./here.gguf": "./here.gguf",
}


@pytest.mark.parametrize("typed", BOXES)
def test_a_machine_by_the_name_that_its_owner_has(typed: str):
    assert catalog.box_record(typed).name == BOXES[typed]


@pytest.mark.parametrize("typed", MODELS)
def test_a_model_by_the_name_that_a_person_has(typed: str):
    assert catalog.model_as_typed(typed) == MODELS[typed]


def test_what_is_on_this_disk_is_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Qwen").mkdir()
    (tmp_path / "Qwen/Qwen3-32B").mkdir()
    assert catalog.model_as_typed("Qwen/Qwen3-32B") == "Qwen/Qwen3-32B"


def test_every_row_is_found_by_what_its_driver_prints():
    for row in catalog.gpus():
        for printed in row.device_names:
            found = catalog.find_box(printed)
            assert found is not None, printed
            assert catalog.gpu(str(found.gpu)).memory_gb.value == row.memory_gb.value, printed


@pytest.mark.parametrize("wrong", ["RTX 9990", "rtx 4090 7gb", "17x 3090", "24GB", "0GB 936GB/s", "24GB 0GB/s", ""])
def test_what_no_row_has_is_no_box(wrong: str):
    with pytest.raises(CatalogError):
        catalog.box_record(wrong)


def test_a_mac_with_less_memory_than_the_largest_has_what_its_name_tells():
    large, small = catalog.box_record("M4 Max"), catalog.box_record("MacBook Pro M4 Max 64GB")
    assert small.memory_bytes.value == 64 * GIB
    assert small.memory_bytes.basis == "assumed"
    shares = [(box.gpus[0].memory_bytes.value or 0) / (box.memory_bytes.value or 1) for box in (small, large)]
    assert 2 / 3 < shares[0] < 0.84 < shares[1] < 1, "macOS lets its GPU have more of a larger memory"


def test_any_other_card_is_planned_by_two_figures(upright: Upright):
    by_figures = upright("plan", "gpt-oss-20b", "--gpu", "24GB 936GB/s", "--ram", "64GB", "--host-bandwidth", "60GB/s")
    assert by_figures.returncode == 0, by_figures.stderr
    assert "1x-24gb-936gb-s" in by_figures.stdout
    assert "decode     not known" not in by_figures.stdout
    assert '--box "24GB 936GB/s"' in by_figures.stderr.replace("'", '"')
    two = catalog.box_record("2x 24GB 0.936TB/s")
    assert [gpu.memory_bandwidth_bytes_per_second.value for gpu in two.gpus] == [936e9, 936e9]


def test_an_old_card_is_for_engines_that_have_kernels_for_it(upright: Upright):
    assert "llama.cpp" in upright("plan", "gpt-oss-20b", "--box", "Tesla P40").stdout
    refused = upright("plan", "gpt-oss-20b", "--box", "Tesla P40", "--engine", "vllm")
    assert refused.returncode == 1
    assert "no kernels" in refused.stdout


def test_the_next_command_has_the_name_that_was_understood(upright: Upright):
    done = upright("plan", "ollama run qwen3:32b", "--box", "2x 3090", "--ram", "64GB")
    assert done.returncode == 0
    assert done.stderr.startswith("note: ollama run qwen3:32b is qwen3-32b here\n")
