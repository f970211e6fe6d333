"""The published runs that constants are fitted on, and those that they are only held against."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from upright import catalog
from upright.catalog.rows.speed import Constants, Kernels, SpeedRow
from upright.planning.speed.fitting import FITTED, PROMPT, fit, leave_out, miss
from upright.planning.speed.samples import RankSample, rank_samples

DECODE_ROWS = ("m023-m044", "m071-m096", "m127-m156", "m191-m224")
DRAFT_ROWS = ("m001-m022", "m045-m070", "m097-m126", "m157-m190")
PROMPT_ROWS = ("m225-m239", "m279-m281")
NVLINK_ONLY = frozenset({"layer_us", "weight_efficiency", "expert_spread", "compute_efficiency"})


@dataclass(frozen=True)
class Run:
    """Rows of one box, held against a row of constants that has not seen them."""

    name: str
    ids: tuple[str, ...]
    model: str
    gpu: str
    row: str
    kernels: Kernels | None = None
    """How that build's kernels cut the work, where it differs from the row's."""
    note: str = ""


RUNS = (
    Run("Kimi K2.6, 8x RTX PRO 6000, EAGLE3, acceptance given", DRAFT_ROWS, "kimi-k2.6", "rtx-pro-6000-server",
        "vllm-sm120-pcie-oneshot"),
    Run("Kimi K2.6, 16x RTX PRO 6000, TP16", ("m282-m287",), "kimi-k2.6", "rtx-pro-6000-server", "vllm-sm120-pcie",
        Kernels(cache_splits=64, head_tile=8)),
    Run("Kimi K2.5, 8x RTX PRO 6000, builds of March", ("m288-m296", "m300-m302"), "kimi-k2.5",
        "rtx-pro-6000-server", "vllm-sm120-pcie-before-0.19"),
    Run("Kimi K2.5, 8x RTX PRO 6000, peer access off or two xGMI links", ("m297-m299", "m303-m305"), "kimi-k2.5",
        "rtx-pro-6000-server", "vllm-sm120-pcie-before-0.19", note="another fabric: the wires decide"),
    Run("Qwen3.5-397B NVFP4, 4x RTX PRO 6000", ("m381", "m383", "m385"), "qwen3.5-397b-a17b",
        "rtx-pro-6000-server", "vllm-sm120-pcie", note="NVFP4 experts and recurrent layers, which were never fitted"),
    Run("Kimi K2.5, HGX H200, by constants of PCIe boxes", ("m312-m316",), "kimi-k2.5", "h200-sxm",
        "vllm-sm120-pcie", Kernels(head_tile=64), note="wires counted as NVLink"),
    Run("Kimi K2.5, HGX B200, by constants of PCIe boxes", ("m317-m321",), "kimi-k2.5", "b200-sxm",
        "vllm-sm120-pcie", Kernels(head_tile=64), note="wires counted as NVLink"),
    Run("Kimi K2.6 with EAGLE3, HGX B200, 8192 in, 2048 out", ("m311",), "kimi-k2.6", "b200-sxm", "vllm-nvlink",
        note="speculates without saying how much was accepted: not predicted"),
    Run("Kimi K2.5, SGLang fork and SGLang, 8x RTX PRO 6000", ("m306-m307",), "kimi-k2.5", "rtx-pro-6000-server",
        "sglang-sm120-pcie"),
    Run("GLM-5 NVFP4, SGLang fork, 8x RTX PRO 6000", ("m387-m388",), "glm-5", "rtx-pro-6000-server",
        "sglang-sm120-pcie"),
    Run("Qwen3.5-397B NVFP4, SGLang fork, 4x RTX PRO 6000", ("m379-m380",), "qwen3.5-397b-a17b",
        "rtx-pro-6000-server", "sglang-sm120-pcie"),
    Run("Kimi K2-Thinking NVFP4, SGLang, 8x RTX PRO 6000 (the SM120 report)", ("m391-m395",), "kimi-k2-thinking",
        "rtx-pro-6000-server", "sglang-sm120-pcie"),
    Run("Kimi K2.5 INT4, SGLang, 8x RTX PRO 6000 (the SM120 report)", ("m396-m401",), "kimi-k2.5",
        "rtx-pro-6000-server", "sglang-sm120-pcie", note="12 requests at once: the pool held no more"),
    Run("Kimi K2.5, SGLang, HGX H200", ("m329-m333",), "kimi-k2.5", "h200-sxm", "sglang-nvlink",
        note="its author calls the averages degraded"),
)  # fmt: skip


def run_samples(run: Run) -> tuple[RankSample, ...]:
    return rank_samples(run.ids, run.kernels or speed_row(run.row).kernels, model=run.model, gpu=run.gpu)


def run_constants(run: Run) -> Constants:
    row = speed_row(run.row)
    if run.gpu.startswith("rtx") or "nvlink" in row.wires:
        return row.constants
    return row.constants.model_copy(update=dict(nvlink_wires(speed_row("vllm-nvlink"))))


def transfer_misses(name: str) -> Iterator[float]:
    """Errors of the runs that a row was held against but not fitted on; vLLM's on every box, or its own wires'."""
    for run in RUNS[1:]:
        if _holds(run, name):
            constants = run_constants(run)
            yield from (miss(sample, constants) for sample in run_samples(run))


def nvlink_wires(row: SpeedRow) -> Iterator[tuple[str, float]]:
    for name in ("hop_us", "collective_gb_s", "prompt_gb_s"):
        yield name, getattr(row.constants, name)


def speed_row(name: str) -> SpeedRow:
    found = catalog.get("speeds", name)
    assert isinstance(found, SpeedRow)
    return found


def pcie_samples() -> tuple[RankSample, ...]:
    """The 112 cells without speculation of Kimi K2.6 on eight RTX PRO 6000."""
    kernels = speed_row("vllm-sm120-pcie-oneshot").kernels
    return rank_samples(DECODE_ROWS, kernels, model="kimi-k2.6", gpu="rtx-pro-6000-server")


def prompt_samples() -> tuple[RankSample, ...]:
    kernels = speed_row("vllm-sm120-pcie-oneshot").kernels
    return rank_samples(PROMPT_ROWS, kernels, model="kimi-k2.6", gpu="rtx-pro-6000-server")


def nvlink_samples() -> tuple[RankSample, ...]:
    kernels = speed_row("vllm-nvlink").kernels
    spans = (("m312-m316", "h200-sxm"), ("m317-m321", "b200-sxm"), ("m322-m326", "b300-sxm"))
    found = [rank_samples((ids,), kernels, model="kimi-k2.5", gpu=gpu) for ids, gpu in spans]
    return tuple(sample for each in found for sample in each)


def by_sharing(sample: RankSample) -> str:
    return f"DCP{sample.work.sharing}"


def by_gpu(sample: RankSample) -> str:
    return f"{sample.silicon}"


def fit_pcie() -> Constants:
    """As the row vllm-sm120-pcie-oneshot was made: decode on 112 cells, prompts on 18."""
    row = speed_row("vllm-sm120-pcie-oneshot")
    decoded = fit(pcie_samples(), row.constants, FITTED)
    return fit(prompt_samples(), decoded, PROMPT)


def fit_nvlink() -> Constants:
    return fit(nvlink_samples(), speed_row("vllm-nvlink").constants, NVLINK_ONLY)


def held_out_pcie() -> tuple[tuple[RankSample, float], ...]:
    return leave_out(pcie_samples(), speed_row("vllm-sm120-pcie-oneshot").constants, by_sharing, FITTED)


def held_out_nvlink() -> tuple[tuple[RankSample, float], ...]:
    return leave_out(nvlink_samples(), speed_row("vllm-nvlink").constants, by_gpu, NVLINK_ONLY)


def _holds(run: Run, name: str) -> bool:
    if name == "vllm-sm120-pcie-oneshot":
        return run.row in ("vllm-sm120-pcie", "vllm-sm120-pcie-before-0.19")
    if name == "vllm-sm120-pcie":
        return run.name in ("Kimi K2.6, 16x RTX PRO 6000, TP16", "Kimi K2.5, 8x RTX PRO 6000, builds of March")
    return run.row == name
