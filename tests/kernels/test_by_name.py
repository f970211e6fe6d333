"""What sparse and recurrent layers launch, on the released wheels: judged, or not judged by name."""

from __future__ import annotations

import pytest

from tests.kernels.conftest import Engine
from upright.engines.facets.kernels import Shapes
from upright.proof.kernels import Compiler, target
from upright.proof.kernels.capture import kernel_route, kernels_of
from upright.proof.kernels.check import kernel_verdicts, named_in
from upright.proof.kernels.check_request import TargetGpus, check_model

pytestmark = [pytest.mark.kernels, pytest.mark.slow]


@pytest.mark.parametrize(("name", "version"), [("vllm", "0.32.0"), ("sglang", "0.5.23")])
def test_every_kernel_that_is_not_judged_is_one_of_this_release(engine: Engine, name: str, version: str) -> None:
    source = engine(name, version)
    for row in kernels_of(name).unjudged:
        assert named_in(row, source) == list(row.kernels), f"{row.layers}, {row.use}: {row.files}"


SPARSE = ("glm-5.3", "deepseek-v3.2", "deepseek-v4-pro")
RECURRENT = ("qwen3.5-397b-a17b", "kimi-k3")


@pytest.mark.parametrize(("name", "version"), [("vllm", "0.32.0"), ("sglang", "0.5.23")])
@pytest.mark.parametrize("model", [*SPARSE, *RECURRENT])
def test_sparse_and_recurrent_kernels_are_told_by_name(
    engine: Engine, compiler: Compiler, name: str, version: str, model: str
) -> None:
    silicon = TargetGpus(target("sm_120"), devices=8)
    found = check_model(model, silicon, engine(name, version), compiler, kv_dtype="bf16")
    about = [one for one in found.not_judged if one.startswith(("sparse MLA", "compressed", "recurrent"))]
    assert about
    assert not [one for one in about if "not known" in one]
    paths = {verdict.path for verdict in found.verdicts}
    if model in SPARSE:
        assert not paths & {"mla-decode", "extend", "decode"}, "the dense kernels are not launched there"
    elif name == "vllm" or model != "kimi-k3":
        assert paths & {"gdn-decode", "kda-decode"}


def test_of_the_configurations_of_an_autotuned_kernel_some_fit(engine: Engine, compiler: Compiler) -> None:
    """vLLM's Gated DeltaNet prefill on SM120: the autotuner has eight of its twelve left."""
    shapes = Shapes(heads=12, kv_heads=4, key_dim=128, value_dim=128, kv_dtype="float32", recurrent=True)
    (found,) = kernel_verdicts(
        [(kernel_route("vllm", "gdn-prefill"), shapes)], engine("vllm", "0.32.0"), target("sm_120"), compiler
    )
    assert found.verdict == "fits"
    assert found.why.startswith("8 of 12 configurations fit, with 41,220 to 90,632 of 101,376 bytes")
