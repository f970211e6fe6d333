"""`upright tools kernels`: whether an engine's Triton kernels fit a GPU architecture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from upright.app.cli.engine_source import engine_options
from upright.app.cli.lazy import FullSummaryGroup
from upright.app.cli.options import model_argument, refuse_empty
from upright.app.cli.output import Output, output_options, say
from upright.app.cli.patch import command as patch_command

if TYPE_CHECKING:
    from upright.proof.kernels import Compiler
    from upright.proof.kernels.sources import EngineSource


box_option = click.option(
    "--box", help="As for probe: a name, a file, a recording or ssh:HOST.  [default: this machine]"
)
target_option = click.option(
    "--target", "target_name", metavar="TARGET", help="Only a silicon: sm_120, 12.0, a GPU's name."
)
devices_option = click.option(
    "--devices", type=click.IntRange(min=1), help="GPUs that share each layer; all of the box by default."
)


@click.group(name="kernels", cls=FullSummaryGroup)
def command() -> None:
    """Prove without a GPU that an engine's kernels fit a silicon."""


@command.command()
@model_argument
@box_option
@target_option
@devices_option
@click.option("--kv-dtype", default="auto", show_default=True, help="Type of the KV cache, as the engine spells it.")
@engine_options()
@output_options
def check(
    output: Output,
    source: EngineSource,
    compiler: Compiler,
    model: str,
    box: str | None,
    target_name: str | None,
    devices: int | None,
    kv_dtype: str,
) -> None:
    """Compile what MODEL would use, and compare with what the silicon has."""
    from upright.app.pages.kernels_page import check_page
    from upright.proof.kernels.check_request import check_model, target_gpus

    silicon = target_gpus(box, target_name, devices)
    kernel_check = check_model(model, silicon, source, compiler, kv_dtype=kv_dtype)
    output.answer(kernel_check, lambda console: check_page(console, kernel_check))
    if kernel_check.answer != "fits":
        if remedy := next((one.remedy for one in kernel_check.verdicts if one.remedy), None):
            say(f"next: {remedy.split(' (')[0].split(';')[0]}" if remedy.startswith("upright ") else f"try:  {remedy}")
        output.no()
    output.next("plan", model, *(["--box", box] if box else []))


@command.command()
@click.argument("kernel")
@click.option("--target", "target_name", metavar="TARGET", required=True, help="sm_120, 12.0, or a GPU's name.")
@click.option("--head", default="576/512", show_default=True, help="Width of a key and of a value.")
@click.option("--heads", default=8, show_default=True, type=click.IntRange(min=1), help="Query heads on a device.")
@click.option("--kv-heads", default=1, show_default=True, type=click.IntRange(min=1), help="KV heads on a device.")
@click.option("--kv-dtype", default="auto", show_default=True, help="Type of the KV cache, as the engine spells it.")
@click.option("--all", "everything", is_flag=True, help="Compile also what a smaller tile already rules out.")
@engine_options()
@output_options
def search(
    output: Output, source: EngineSource, compiler: Compiler, kernel: str, target_name: str, head: str,
    heads: int, kv_heads: int, kv_dtype: str, everything: bool,
) -> None:  # fmt: skip
    """Find the largest tiles of KERNEL (extend, decode, prefill, mla-decode) that fit."""
    from upright.base.errors import UsageError
    from upright.engines.facets.kernels import Shapes
    from upright.proof import kernels
    from upright.proof.kernels.capture import kernel_route
    from upright.proof.kernels.search import search as find_tiles

    try:
        key, value_width = (int(part) for part in head.split("/"))
    except ValueError:
        raise UsageError(f"{head} is no head", hint="--head 576/512: a key's width and a value's") from None
    shapes = Shapes(heads, kv_heads, key, value_width, kv_dtype=kernels.kv_type(kv_dtype))
    silicon = kernels.target(target_name)
    tile_search = find_tiles(
        kernel_route(source.engine, kernel), shapes, source, silicon, compiler, everything=everything
    )
    from upright.app.pages.kernels_page import tiles_page

    output.answer(tile_search, lambda console: tiles_page(console, tile_search))
    if not any(tile.verdict == "fits" for tile in tile_search.tiles):
        output.no()


@command.command()
@click.argument("model", required=False, callback=refuse_empty)
@box_option
@target_option
@devices_option
@click.option("--device", help="Only files tuned on devices with this in their name, such as H100.")
@click.option("--tuned", metavar="FILE", help="A tuned file of your own, instead of those that the engine ships.")
@click.option("--candidates", "dtype", metavar="TYPE", help="Also tiles worth tuning: bf16, fp8_w8a8, int8_w8a16.")
@engine_options()
@output_options
def moe(
    output: Output, source: EngineSource, compiler: Compiler, model: str | None, box: str | None,
    target_name: str | None, devices: int | None, device: str | None, tuned: str | None, dtype: str | None,
) -> None:  # fmt: skip
    """Say which tuned MoE configurations of the engine can run on a target, and which MODEL would load."""
    from upright.proof.kernels import moe as configurations
    from upright.proof.kernels.check_request import moe_of_model, target_gpus

    silicon = target_gpus(box, target_name, devices)
    loads = moe_of_model(model, silicon, source, compiler) if model is not None else None
    if tuned is not None:
        files = [configurations.tuned_file(Path(tuned))]
    elif loads is None or device is not None:
        files = configurations.tuned_files(source, device)
    else:
        files = []
    moe_check = configurations.check_moe(files, source, silicon.target, compiler)
    if dtype is not None:
        kind = None if dtype == "bf16" else dtype
        shipped = files or configurations.tuned_files(source)
        tiles = configurations.candidates(shipped, kind, source, silicon.target, compiler)
        moe_check = moe_check.model_copy(update={"candidates": tuple(tiles)})
    moe_check = moe_check.model_copy(update={"model": loads})
    from upright.app.pages.kernels_page import moe_page

    output.answer(moe_check, lambda console: moe_page(console, moe_check))
    too_large = tuned is not None and any(row.entries_over for row in moe_check.devices)
    if too_large or (loads is not None and any(one.verdict == "does-not-fit" for one in loads.verdicts)):
        output.no()
    if loads is not None:
        output.next("plan", str(model), *(["--box", box] if box else []))


command.add_command(patch_command)
