"""KTransformers: Plan -> flags of SGLang's server with kt-kernel's own, sglang-kt 0.7.2."""

from __future__ import annotations

from collections.abc import Iterator

from upright.engines import model_settings
from upright.engines.facets.flags import FlagCase, Flags
from upright.engines.ktransformers.cpu_formats import CONVERTED, experts_on_gpus, host_format
from upright.engines.sglang.flags import FLAGS as SGLANG
from upright.facts.records.recipe import Setting

README = "kt-kernel/README.md, KT-Kernel Parameters (2026-11)"
_TUTORIAL = "ktransformers doc/en/Kimi-K2.5.md"
_ROCKY = "https://github.com/kvcache-ai/ktransformers/issues/1961"
_NOT_ITS = frozenset({"--attention-backend", "--moe-runner-backend", "--fp4-gemm-backend"})
"""SGLang's choices of kernels by version and silicon: the fork counts its versions otherwise."""


class KtransformersFlags:
    """The words of SGLang's server, and those of kt-kernel."""

    def arguments(self, case: FlagCase) -> tuple[Setting, ...]:
        sglang = (setting for setting in SGLANG.arguments(case) if setting.name not in _NOT_ITS)
        return (*sglang, *_experts(case), *_kernels(case))

    def environment(self, case: FlagCase) -> tuple[Setting, ...]:
        return SGLANG.environment(case)

    def notes(self, case: FlagCase) -> tuple[str, ...]:
        return tuple(_notes(case))


FLAGS: Flags = KtransformersFlags()


def _experts(case: FlagCase) -> Iterator[Setting]:
    method, cpu = host_format(case.model.quantisation).name, case.box.cpu
    if case.model.architecture.experts is None:
        return
    yield Setting(
        name="--kt-weight-path",
        value=case.serving.model_path,
        reason="experts that the CPU computes: the same files as the GPUs', in their native format",
        source=_TUTORIAL,
    )
    if method:
        yield Setting(name="--kt-method", value=method, reason="the CPU kernel for experts stored so", source=README)
    if cpu.cores:
        yield Setting(
            name="--kt-cpuinfer",
            value=str(cpu.cores),
            reason="threads: the physical cores, not their hardware threads",
            source=README,
        )
    if nodes := len(case.box.numa):
        yield Setting(
            name="--kt-threadpool-count",
            value=str(nodes),
            reason="a pool for each NUMA node",
            source=README,
        )
    yield Setting(
        name="--kt-num-gpu-experts",
        value=str(experts_on_gpus(case.plan, case.model)),
        reason="routed experts of each layer that the plan found room for on the GPUs",
        source=README,
    )


def _kernels(case: FlagCase) -> Iterator[Setting]:
    yield Setting(
        name="--attention-backend",
        value="flashinfer",
        reason="what its tutorials and published runs use",
        source=_TUTORIAL,
    )
    # Guard: with shared experts fused into the routed ones kt-kernel would have to know them (server_args.py, 0.7.2).
    yield Setting(
        name="--disable-shared-experts-fusion",
        reason="shared experts stay on the GPUs, apart from the routed ones",
        source=_TUTORIAL,
    )
    if "--fp8-gemm-backend" in case.accepted:
        yield Setting(
            name="--fp8-gemm-backend",
            value="triton",
            reason="the default wrote random tokens after 55k of context on RTX PRO 6000",
            source=_ROCKY,
        )


def _notes(case: FlagCase) -> Iterator[str]:
    yield from model_settings.shared_notes(case)
    yield (
        "--kt-gpu-prefill-token-threshold is left out: above it prompts are read layer by layer on the GPU, which was "
        "reported to answer gibberish (kvcache-ai/ktransformers issue 1816). Prefill is slower without it."
    )
    if not host_format(case.model.quantisation).name:
        yield f"No CPU kernel reads these experts as they are: {CONVERTED}; then set --kt-method and --kt-weight-path."
