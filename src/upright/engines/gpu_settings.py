"""Settings that depend on the GPU architecture and the interconnect of a box.

SM 12.x (RTX PRO 6000, RTX 5090, GB10) is not SM 10.x (B200): less shared memory, no NVLink, other kernels.
"""

from __future__ import annotations

from collections.abc import Sequence

from upright.facts import catalog
from upright.facts.catalog.rows.engine import CompatRow, ImageRow
from upright.facts.records.box import Box, Link
from upright.facts.records.model import CompressedAttention, MlaAttention, Model
from upright.facts.records.plan import Plan
from upright.facts.records.recipe import Setting

PCIE_ALL_REDUCE = "pcie-allreduce"
"""The patch that brings an all-reduce of its own over PCIe."""
_NCCL = "NCCL environment variables, NCCL_P2P_LEVEL: levels are words; integers differ between its own documents"
_CUDA_VARIABLES = "CUDA programming guide, environment variables"
_NO_PEERS = "local-inference-lab/rtx6kpro optimization/nccl-tuning.md: boxes without peer access"
# The way that nvidia-smi names -> the level up to which NCCL must allow peer access.
_LEVELS = {"PIX": "PIX", "PXB": "PXB", "PHB": "PHB", "NODE": "SYS", "SYS": "SYS"}
_FARTHEST = ("PIX", "PXB", "PHB", "NODE", "SYS")


def capability(box: Box) -> str | None:
    return next((gpu.compute_capability for gpu in box.gpus if gpu.compute_capability), None)


def is_sm12(box: Box) -> bool:
    return (capability(box) or "").startswith("12.")


def is_sm10(box: Box) -> bool:
    return (capability(box) or "").startswith("10.")


def has_amx_tiles(box: Box) -> bool:
    return "amx_tile" in box.cpu.flags


def gpus_used(plan: Plan, box: Box) -> int:
    return min(len(box.gpus), plan.parallel.ranks) if box.gpus else 0


def over_pcie(plan: Plan, box: Box) -> bool:
    """Whether ranks talk to each other without NVLink."""
    used = gpus_used(plan, box)
    if used < 2:
        return False
    links = _links(box, used)
    return not any(link.fabric for link in links) if links else is_sm12(box)


def shown_gpus(plan: Plan, box: Box) -> tuple[Setting, ...]:
    """Of GPUs of several kinds: in which order they are counted, and which of them the engine sees."""
    if not plan.gpus:
        return ()
    probed = box.basis == "probed"
    order = Setting(
        name="CUDA_DEVICE_ORDER",
        value="PCI_BUS_ID" if probed else "FASTEST_FIRST",
        reason="GPUs of several kinds, numbered as nvidia-smi numbers them"
        if probed
        else "GPUs of several kinds, the fastest first: nobody looked in which slots they are",
        source=_CUDA_VARIABLES,
    )
    if len(plan.gpus) == len(box.gpus):
        return (order,)
    shown = Setting(
        name="CUDA_VISIBLE_DEVICES",
        value=",".join(map(str, plan.gpus)),
        reason="the GPUs that the plan uses; the others stay idle",
        source=_CUDA_VARIABLES,
    )
    return order, shown


def dense_mla(model: Model) -> bool:
    return any(isinstance(kind, MlaAttention) and not kind.sparse for kind in model.architecture.attention)


def sparse_indexer(model: Model) -> bool:
    """Whether layers choose by an indexer which tokens they look at."""
    kinds = model.architecture.attention
    return any(isinstance(kind, MlaAttention | CompressedAttention) and kind.indexer_head_dim for kind in kinds)


def compat_row(engine: str, version: str | None, box: Box, feature: str, *, patched: bool = False) -> CompatRow | None:
    """What the catalogue knows of a feature of this engine's version on these GPUs."""
    on = capability(box)
    if on is None:
        return None
    try:
        rows = catalog.compat(engine, version, on, patched=patched)
    except ValueError:  # a commit is no version to compare
        rows = catalog.compat(engine, None, on, patched=patched)
    return next((row for row in rows if row.feature == feature), None)


def nccl(plan: Plan, box: Box) -> tuple[Setting, ...]:
    """What NCCL must be told of the wires; nothing with one GPU or with NVLink."""
    if not over_pcie(plan, box):
        return ()
    links = _links(box, gpus_used(plan, box))
    refused = sorted({link.peer_access for link in links if link.peer_access not in (None, "OK")})
    if refused:
        return _without_peers(refused)
    paths = [link.path for link in links if link.path in _FARTHEST]
    farthest = max(paths, key=_FARTHEST.index, default="SYS")
    known = f"the farthest pair of GPUs is {farthest} apart" if paths else "the box's topology is not known"
    return (
        Setting(
            name="NCCL_P2P_LEVEL",
            value=_LEVELS[farthest],
            reason=f"{known}: peers talk directly over PCIe, not through host memory",
            source=_NCCL,
        ),
    )


def peer_access_refused(plan: Plan, box: Box) -> bool:
    """Whether the driver is known to refuse peer access between GPUs that are used."""
    return any(link.peer_access not in (None, "OK") for link in _links(box, gpus_used(plan, box)))


def custom_all_reduce_settings(plan: Plan, box: Box, flag: str, image: ImageRow | None = None) -> tuple[Setting, ...]:
    """With more than two GPUs on PCIe upstream's custom kernel is refused or slow; some images carry another one."""
    if not over_pcie(plan, box) or gpus_used(plan, box) <= 2:
        return ()
    if image is not None and PCIE_ALL_REDUCE in image.patches and not peer_access_refused(plan, box):
        return ()
    # Guard: without true BAR1 peer access the custom kernel took decode from 104 to 26 tok/s on 8 RTX PRO 6000.
    return (
        Setting(
            name=flag,
            reason="more than two GPUs on PCIe: NCCL does it; the custom kernel needs NVLink or true BAR1 peer access "
            "and was 4 times slower without",
            source="local-inference-lab/rtx6kpro kimi-k26-prometheus-benchmark-refresh-2026-04-25.md; "
            "vllm custom_all_reduce.py",
        ),
    )


def _links(box: Box, used: int) -> Sequence[Link]:
    return [link for link in box.links if link.a < used and link.b < used]


def _without_peers(refused: Sequence[str | None]) -> tuple[Setting, ...]:
    refusals = ", ".join(refusal for refusal in refused if refusal)
    return (
        Setting(
            name="NCCL_P2P_DISABLE",
            value="1",
            reason=f"the driver refuses peer access ({refusals}): through host memory, without trying",
            source=_NO_PEERS,
        ),
        Setting(name="NCCL_MIN_NCHANNELS", value="16", reason="more channels make up for it", source=_NO_PEERS),
        Setting(name="NCCL_MAX_NCHANNELS", value="32", reason="more channels make up for it", source=_NO_PEERS),
        Setting(name="NCCL_BUFFSIZE", value="33554432", reason="larger buffers for them", source=_NO_PEERS),
    )
