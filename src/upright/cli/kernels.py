"""kernels: an engine's Triton kernels and a target -> whether each fits, as a page or as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from upright.cli.engine_source import engine_options
from upright.cli.output import Output, output_options, say

if TYPE_CHECKING:
    from rich.console import Console

    from upright.kernels import Compiler, Target
    from upright.kernels.sources import EngineSource
    from upright.records.box import Box
    from upright.records.kernel import KernelCheck
    from upright.records.model import Attention

MARKS = {"fits": "yes", "does-not-fit": "NO", "could-not-determine": "?"}
WORDS = {"fits": "fits", "does-not-fit": "does not fit", "could-not-determine": "could not determine"}


@click.group(name="kernels")
def command() -> None:
    """Prove without a GPU that an engine's kernels fit a silicon."""


@command.command()
@click.argument("model")
@click.option("--box", help="A catalogue name; this machine if neither this nor --target is given.")
@click.option("--target", "target_name", metavar="TARGET", help="Only a silicon: sm_120, 12.0, a GPU's name.")
@click.option("--devices", type=click.IntRange(min=1), help="GPUs that share each layer; all of the box by default.")
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
    from upright import kernels

    place, silicon, count = _place(box, target_name)
    name, attention = _attention(model)
    found = kernels.check(
        attention, source, silicon, compiler,
        devices=devices or count, kv_dtype=kernels.kv_type(kv_dtype), model=name, box=place,
    )  # fmt: skip
    output.answer(found, lambda console: _page(console, found))
    if found.answer != "fits":
        if remedy := next((one.remedy for one in found.verdicts if one.remedy), None):
            say(f"next: {remedy.split(' (')[0].split(';')[0]}" if remedy.startswith("upright ") else f"try:  {remedy}")
        output.no()
    output.next("plan", model, *(["--box", box] if box else []))


def _place(box: str | None, target_name: str | None) -> tuple[str | None, Target, int]:
    from upright.errors import UsageError
    from upright.kernels import of_capability, target

    if box is not None and target_name is not None:
        raise UsageError("--box and --target name the silicon twice")
    if target_name is not None:
        return None, target(target_name), 1
    found = _box(box)
    capabilities = {gpu.compute_capability for gpu in found.gpus if gpu.compute_capability}
    if not capabilities:
        raise UsageError(f"{found.name} has no GPU whose capability is known", hint="--target sm_120")
    if len(capabilities) > 1:
        raise UsageError(f"{found.name} has {', '.join(sorted(capabilities))}", hint="--target names one of them")
    return found.name, of_capability(capabilities.pop()), len(found.gpus)


def _box(name: str | None) -> Box:
    if name is not None:
        from upright import catalog

        return catalog.box_record(name)
    from upright.host import LocalHost
    from upright.probing import probe

    return probe(LocalHost())


def _attention(model: str) -> tuple[str, tuple[Attention, ...]]:
    from upright import catalog

    row = catalog.find_model(model)
    if row is not None and row.shape is not None:
        return row.id, row.shape.attention
    from upright.reading import read

    found = read(model)
    return found.name, found.architecture.attention


def _page(console: Console, found: KernelCheck) -> None:
    where = f"{found.box} ({found.target})" if found.box else found.target
    version = f"{found.engine} {found.engine_version or '(version unknown)'}"
    console.print(f"{found.model} on {where} with {version}: {WORDS[found.answer]}", soft_wrap=True)
    console.print(f"  {found.engine_source}; compiled with {found.triton}", soft_wrap=True)
    for item in found.verdicts:
        console.print(f"  {MARKS[item.verdict]:<4} {item.path} {item.kernel}: {item.why}", soft_wrap=True)
        console.print(f"       {item.launch}", soft_wrap=True)
        if item.short_bytes:
            console.print(f"       short by {item.short_bytes:,} bytes", soft_wrap=True)
        if item.remedy:
            console.print(f"       try {item.remedy}", soft_wrap=True)
    for line in found.not_judged:
        console.print(f"  not judged: {line}", soft_wrap=True)
