"""What sparse and recurrent layers launch, on the released wheels: judged, or not judged by name."""

from __future__ import annotations

import pytest

from tests.kernels.conftest import Engine
from upright.kernels import Compiler, target
from upright.kernels.asked_check import AskedSilicon, check_asked
from upright.kernels.capture import kernels_of
from upright.kernels.unjudged import named_in

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
    silicon = AskedSilicon(target("sm_120"), devices=8)
    found = check_asked(model, silicon, engine(name, version), compiler, kv_dtype="bf16")
    about = [one for one in found.not_judged if one.startswith(("sparse MLA", "compressed", "recurrent"))]
    assert about
    assert not [one for one in about if "not known" in one]
    paths = {verdict.path for verdict in found.verdicts}
    if model in SPARSE:
        assert not paths & {"mla-decode", "extend", "decode"}, "the dense kernels are not launched there"
    elif name == "vllm" or model != "kimi-k3":
        assert paths & {"gdn-decode", "kda-decode"}
