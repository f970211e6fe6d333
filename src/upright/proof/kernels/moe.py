"""An engine's tuned MoE configurations + target -> which of them can run there.

A tuned file is keyed by the device's name, so nobody loads another card's file by accident; but people copy them, and a
tile that another card was tuned for is the first thing to try. Both ask the same question: does it fit here?
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from upright.base.bounds.bounded_json import parse_json
from upright.base.bounds.files import file_bytes
from upright.base.errors import EngineError, UsageError
from upright.engines.facets.kernels import Arguments, KernelRoute, Shapes, tensor
from upright.facts.records.kernel import MoeCandidate, MoeCheck, MoeDevice
from upright.proof.kernels.capture import LauncherCall, call_with_known, find, kernels_of
from upright.proof.kernels.compile import CompileOutcome, CompileTask
from upright.proof.kernels.compiler import Compiler
from upright.proof.kernels.extract import extract
from upright.proof.kernels.sources import EngineSource
from upright.proof.kernels.targets import CompileTarget

HIDDEN, TOP_K = 7168, 8
"""LibraryDefault: only divisibility by 16 of a width reaches the compiler, and every model of today has it."""
_NAME = re.compile(
    r"E=(?P<experts>\d+),N=(?P<width>\d+),device_name=(?P<device>[^,]+?)(?:,dtype=(?P<dtype>[^,]+?))?"
    r"(?:,block_shape=\[(?P<block>[\d, ]+)\])?(?P<channels>,per_channel_quant=True)?(?P<down>_down)?\.json"
)
MOST_ENTRIES = 64
"""Batch sizes in one file: the engines' tuners write 18, and each distinct tile is a compile."""
TILE = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "num_warps", "num_stages")

Tile = tuple[str | None, tuple[int, ...] | None, bool, tuple[int, ...]]
"""Weight type, quantisation block, one scale a channel, and the numbers of `TILE`."""


@dataclass(frozen=True)
class ConfigFile:
    """One tuned file, as its name and content say."""

    name: str
    device: str
    experts: int
    width: int
    dtype: str | None
    block_shape: tuple[int, ...] | None
    per_channel: bool
    tiles: Mapping[int, tuple[int, ...]] = field(hash=False)
    """Batch size -> the numbers of `TILE`."""

    def tile(self, batch: int) -> Tile:
        return self.dtype, self.block_shape, self.per_channel, self.tiles[batch]


def tuned_files(source: EngineSource, device: str | None = None) -> list[ConfigFile]:
    """Every tuned file of the engine for NVIDIA cards, or for devices whose name contains `device`."""
    folders = [
        source.root / name for name in kernels_of(source.engine).experts.configurations if (source.root / name).is_dir()
    ]
    if not folders:
        raise EngineError(f"{source.where} has no tuned MoE configurations")
    parsed_files = [_read(path) for folder in folders for path in sorted(folder.rglob("*.json"))]
    files = [
        config_file
        for config_file in parsed_files
        if config_file is not None and config_file.device.startswith("NVIDIA")
    ]
    wanted = [config_file for config_file in files if device is None or device.lower() in config_file.device.lower()]
    if not wanted:
        names = ", ".join(sorted({config_file.device for config_file in files}))
        raise UsageError(f"no tuned file for a device named {device}", hint=f"devices: {names}")
    return wanted


def tuned_file(path: Path) -> ConfigFile:
    """One that somebody brings: named as the engines name theirs, so that its experts and type are known."""
    if not path.is_file():
        raise UsageError(f"{path} is not a file")
    config_file = _read(path)
    if config_file is None or not config_file.tiles:
        hint = "E=384,N=256,device_name=…,dtype=fp8_w8a8,block_shape=[128,128].json, and a batch size for each entry"
        raise UsageError(f"{path.name} is no tuned MoE file", hint=hint)
    return config_file


def check_moe(files: Sequence[ConfigFile], source: EngineSource, target: CompileTarget, compiler: Compiler) -> MoeCheck:
    """Each distinct tile is compiled once; the counts are of files and of their entries."""
    tiles = sorted({config_file.tile(batch) for config_file in files for batch in config_file.tiles}, key=repr)
    outcomes = compiled(tiles, source, target, compiler) if tiles else {}
    devices = sorted({config_file.device for config_file in files})
    return MoeCheck(
        engine=source.engine,
        engine_version=source.version,
        engine_source=source.where,
        triton=compiler.interpreter.described,
        target=target.name,
        limit_bytes=target.limit_bytes,
        tiles=len(tiles),
        devices=tuple(
            row
            for name in devices
            for dtype in sorted({config_file.dtype or "" for config_file in files if config_file.device == name})
            if (row := _row([one for one in files if (one.device, one.dtype or "") == (name, dtype)], outcomes, target))
        ),
    )


def candidates(
    files: Sequence[ConfigFile], dtype: str | None, source: EngineSource, target: CompileTarget, compiler: Compiler
) -> list[MoeCandidate]:
    """Tiles that somebody tuned on any card, for this weight type, that run on the target; the most used first."""
    alike = [config_file for config_file in files if config_file.dtype == dtype]
    used: Counter[Tile] = Counter(config_file.tile(batch) for config_file in alike for batch in config_file.tiles)
    batches: dict[Tile, set[int]] = {}
    for config_file in alike:
        for batch in config_file.tiles:
            batches.setdefault(config_file.tile(batch), set()).add(batch)
    outcomes = compiled(sorted(used, key=repr), source, target, compiler)
    fitting = []
    for tile, count in used.most_common():
        needed = outcomes[tile].shared_bytes
        if needed is not None and target.limit_bytes is not None and needed <= target.limit_bytes:
            numbers = dict(zip(TILE, tile[3], strict=True))
            low, high = min(batches[tile]), max(batches[tile])
            fitting.append(MoeCandidate(tile=numbers, used=count, batch_from=low, batch_to=high, needed_bytes=needed))
    return fitting


def compiled(
    tiles: Sequence[Tile], source: EngineSource, target: CompileTarget, compiler: Compiler
) -> dict[Tile, CompileOutcome]:
    calls: dict[Tile, LauncherCall] = {}
    outcomes: dict[Tile, CompileOutcome] = {}
    any_tile = _way(source.engine, tiles[0])
    extracted = extract(source.root, find(any_tile, source.root), any_tile.launcher)
    for tile in tiles:
        try:
            calls[tile] = call_with_known(_way(source.engine, tile), extracted, _NO_SHAPES)
        except EngineError as error:
            outcomes[tile] = CompileOutcome(kernels_of(source.engine).experts.launcher, error=error.message)
    results = compiler.outcomes([CompileTask(kernel_call) for kernel_call in calls.values()], target)
    return outcomes | {tile: tile_outcomes[0] for tile, tile_outcomes in zip(calls, results, strict=True)}


_NO_SHAPES = Shapes(0, 0, 0, 0)


def _way(engine: str, tile: Tile) -> KernelRoute:
    experts = kernels_of(engine).experts
    return KernelRoute("fused-moe", experts.files, experts.launcher, _arguments_of(tile), "routed experts")


def _arguments_of(tile: Tile) -> Callable[[Shapes], Arguments]:
    return lambda _shapes: moe_arguments(tile)


def moe_arguments(tile: Tile, *, batch: int = 1024, experts: int = 64, width: int = 1024) -> Arguments:
    """The first product of the experts (gate and up) at this tile."""
    dtype, block, per_channel, numbers = tile
    if dtype not in (None, "fp8_w8a8", "int8_w8a8", "int8_w8a16"):
        raise EngineError(f"no launch is known for files tagged {dtype}")
    fp8, int8, narrow = dtype == "fp8_w8a8", dtype == "int8_w8a8", dtype == "int8_w8a16"
    weights = "float8_e4m3fn" if fp8 else "int8" if int8 or narrow else "bfloat16"
    activations = weights if fp8 or int8 else "bfloat16"
    config = dict(zip(TILE, numbers, strict=True)) | {"GROUP_SIZE_M": 1}
    return {
        "A": tensor(activations, batch, HIDDEN),
        "B": tensor(weights, experts, 2 * width, HIDDEN),
        "C": tensor("bfloat16", batch, TOP_K, 2 * width),
        "bias": None,
        "B_zp": None,
        **_scales(activations != "bfloat16", weights != "bfloat16", block, per_channel, batch, experts, width),
        "topk_weights": tensor("float32", batch, TOP_K),
        "topk_ids": tensor("int32", batch, TOP_K),
        "sorted_token_ids": tensor("int32", batch * TOP_K),
        "expert_ids": tensor("int32", batch),
        "num_tokens_post_padded": tensor("int32", 1),
        "mul_routed_weight": False,
        "top_k": TOP_K,
        "config": {"dict": config},
        "compute_type": {"tl": "bfloat16"},
        "use_fp8_w8a8": fp8,
        "use_int8_w8a8": int8,
        "use_int8_w8a16": narrow,
        "use_int4_w4a16": False,
        "per_channel_quant": per_channel,
        "block_shape": list(block) if block else None,
    }


def _scales(
    left: bool, right: bool, block: tuple[int, ...] | None, per_channel: bool, batch: int, experts: int, width: int
) -> Arguments:
    rows = 2 * width
    if block:
        down, across = block
        scale_a: Arguments | None = tensor("float32", batch, -(-HIDDEN // across))
        scale_b: Arguments | None = tensor("float32", experts, -(-rows // down), -(-HIDDEN // across))
    else:
        scale_a = tensor("float32", batch, 1) if per_channel else tensor("float32", 1)
        scale_b = tensor("float32", experts, rows) if per_channel or not left else tensor("float32", experts)
    return {"A_scale": scale_a if left else None, "B_scale": scale_b if right else None}


def _read(path: Path) -> ConfigFile | None:
    named = _NAME.fullmatch(path.name)
    if named is None:
        return None
    try:
        content = parse_json(file_bytes(path))
        entries = {int(batch): entry for batch, entry in content.items() if isinstance(entry, dict) and batch.isdigit()}
        tiles = {batch: numbers_of(entry) for batch, entry in entries.items()}
    except (OSError, ValueError, TypeError, AttributeError, OverflowError):
        return None
    if len(tiles) > MOST_ENTRIES:
        return None
    block = tuple(int(part) for part in named["block"].split(",")) if named["block"] else None
    numbers = int(named["experts"]), int(named["width"])
    return ConfigFile(path.name, named["device"], *numbers, named["dtype"], block, bool(named["channels"]), tiles)


def numbers_of(entry: Mapping[str, int]) -> tuple[int, ...]:
    """A configuration's tile; where it leaves out warps or stages, Triton's own on NVIDIA."""
    triton = {"num_warps": 4, "num_stages": 3}
    return tuple(int(entry.get(name) or triton.get(name, 0)) for name in TILE)


def _row(
    files: Sequence[ConfigFile], outcomes: Mapping[Tile, CompileOutcome], target: CompileTarget
) -> MoeDevice | None:
    entries = [(config_file, outcomes[config_file.tile(batch)]) for config_file in files for batch in config_file.tiles]
    limit = target.limit_bytes
    known = [
        (config_file, one.shared_bytes)
        for config_file, one in entries
        if one.shared_bytes is not None and limit is not None
    ]
    over = [(config_file, needed) for config_file, needed in known if limit is not None and needed > limit]
    errors = Counter(one.error or target.source for _, one in entries if one.shared_bytes is None or limit is None)
    return MoeDevice(
        device=files[0].device,
        dtype=f"tag {files[0].dtype}" if files[0].dtype in ("bf16", "float8") else files[0].dtype or "bf16",
        files=len(files),
        files_over=len({config_file.name for config_file, _ in over}),
        entries=len(entries),
        entries_over=len(over),
        entries_unknown=sum(errors.values()),
        most_bytes=max((needed for _, needed in known), default=None),
        why=errors.most_common(1)[0][0] if errors else None,
    )
