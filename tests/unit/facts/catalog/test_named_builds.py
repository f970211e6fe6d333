"""A repository that the catalogue does not list is planned by its name where the hub cannot be asked."""

from __future__ import annotations

import pytest

from upright.base.errors import ReadError, UnreachedError, UsageError
from upright.base.units import GIB
from upright.facts.catalog import model
from upright.facts.records.model import Model
from upright.models.deriving.catalogue_models import records
from upright.models.deriving.named_builds import build_by_name, is_build_by_name
from upright.planning.choosing.artifacts import artifact_choice
from upright.planning.memory.file_sizes import SMALLEST, largest_size

# Sizes of files, as kyuz0/amd-strix-halo-toolboxes and the repositories' pages state them.
FILES = {
    "unsloth/Qwen3.6-35B-A3B-GGUF:UD-Q4_K_XL": 21.3,
    "unsloth/Qwen3.6-35B-A3B-GGUF:UD-Q8_K_XL": 35.8,
    "unsloth/gemma-4-31B-it-GGUF:UD-Q4_K_XL": 17.5,
    "unsloth/gemma-4-31B-it-GGUF:UD-Q8_K_XL": 32.6,
    "unsloth/gemma-4-26B-A4B-it-GGUF:UD-Q8_K_XL": 25.9,
    "unsloth/Qwen3.5-122B-A10B-GGUF:UD-Q5_K_XL": 85.6,
    "unsloth/NVIDIA-Nemotron-3-Super-120B-A12B-GGUF:UD-Q4_K_XL": 78.0,
    "unsloth/MiniMax-M2.7-GGUF:UD-Q3_K_S": 87.2,
    "ubergarm/Kimi-K2-Instruct-GGUF:IQ2_KL": 345.7,
}


def unreachable(source: str) -> Model:
    raise UnreachedError(f"{source}: no network")


@pytest.mark.parametrize("name", FILES)
def test_sizes_are_about_those_of_the_files(name: str):
    build = build_by_name(name)
    assert build is not None
    assert SMALLEST <= FILES[name] * GIB / build.tensor_bytes <= largest_size(build)


@pytest.mark.parametrize(
    ("name", "row", "scheme"),
    [
        ("bartowski/Qwen_Qwen3-30B-A3B-GGUF:q5_k_m", "qwen3-30b-a3b", "GGUF Q5_K_M"),
        ("QuantTrio/Qwen3-235B-A22B-Instruct-2507-AWQ", "qwen3-235b-a22b", "AWQ INT4"),
        ("RedHatAI/Qwen3-30B-A3B-FP8-dynamic", "qwen3-30b-a3b", "FP8"),
        ("someone/GLM-4.6-NVFP4", "glm-4.6", "NVFP4"),
        ("someone/GLM-4.6-FP4", "glm-4.6", "NVFP4"),
        ("someone/GLM-4.6-MXFP4", "glm-4.6", "MXFP4"),
        ("nvidia/DeepSeek-R1-0528-FP4-v2", "deepseek-r1", "NVFP4"),
    ],
)
def test_a_name_tells_the_model_and_how_it_is_stored(name: str, row: str, scheme: str):
    build = build_by_name(name)
    assert build is not None
    assert build.architecture.layers == records(model(row))[0].architecture.layers
    assert build.quantisation == scheme


@pytest.mark.parametrize(
    "name",
    ["unsloth/Unheard-9B-GGUF:Q4_K_M", "unsloth/gpt-oss-20b-GGUF:Q9_Z", "someone/Qwen3-30B-A3B-finetune", "qwen3-30b"],
)
def test_a_name_that_does_not_tell_both_tells_nothing(name: str):
    assert build_by_name(name) is None


def test_another_release_by_the_same_maker_is_stored_as_the_first():
    sister, strange = (build_by_name(f"{maker}/Qwen3-30B-A3B-Thinking-2507") for maker in ("Qwen", "someone"))
    assert sister is not None
    assert sister.weights == records(model("qwen3-30b-a3b"))[0].weights
    assert (sister.source, is_build_by_name(sister)) == ("Qwen/Qwen3-30B-A3B-Thinking-2507", True)
    assert strange is None


def test_experts_that_were_trained_in_mxfp4_stay_so():
    """Published files of gpt-oss called Q4_K_M and Q8_0 have the same experts."""
    small, large = (build_by_name(f"unsloth/gpt-oss-20b-GGUF:{quant}") for quant in ("Q4_K_M", "Q8_0"))
    assert small is not None
    assert large is not None
    experts = [sum(line.bytes for line in build.weights if line.group == "routed_experts") for build in (small, large)]
    assert experts[0] == experts[1]


def test_without_a_network_the_name_stands_in():
    chosen = artifact_choice("unsloth/gpt-oss-120b-GGUF:Q4_K_M", unreachable)
    assert chosen.model.source == "unsloth/gpt-oss-120b-GGUF:Q4_K_M"
    assert is_build_by_name(chosen.model)
    assert not is_build_by_name(artifact_choice("ggml-org/gpt-oss-120b-GGUF:MXFP4_MOE", unreachable).model)


def test_what_the_hub_does_not_have_is_refused():
    def absent(source: str) -> Model:
        raise ReadError(f"{source}: the hub has no such repository")

    with pytest.raises(ReadError):
        artifact_choice("unsloth/gpt-oss-120b-GGUF-typo:Q4_K_M", absent)
    with pytest.raises(UsageError, match="the catalogue has no"):
        artifact_choice("unsloth/Qwen3.6-35B-A3B-GGUF:Q9_Z", unreachable)
