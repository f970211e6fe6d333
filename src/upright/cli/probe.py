"""probe: a machine -> its Box, as a page or as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from upright.cli.output import Output, output_options

if TYPE_CHECKING:
    from rich.console import Console

    from upright.records.base import Figure
    from upright.records.box import Box


@click.command(name="probe")
@output_options
def command(output: Output) -> None:
    """Look at a machine: processors, memory, GPUs, engines."""
    from upright.host import LocalHost
    from upright.probing import probe

    box = probe(LocalHost())
    output.answer(box, lambda console: _page(console, box))
    output.next("plan", "MODEL")


def _page(console: Console, box: Box) -> None:
    cpu = box.cpu
    console.print(box.name)
    console.print(f"  cpu      {cpu.name}, {cpu.cores} cores")
    console.print(f"  memory   {_memory(box.memory_bytes)}, {_memory(box.memory_available_bytes)} available")
    for gpu in box.gpus:
        console.print(f"  gpu {gpu.index}    {gpu.name}, {_memory(gpu.memory_bytes)}")
    if not box.gpus:
        console.print("  gpu      none")
    for engine in box.engines:
        console.print(f"  engine   {engine.engine} {engine.version or '(no version)'}")
    if not box.engines:
        console.print("  engine   none found on PATH or in UPRIGHT_LLAMA_SERVER")


def _memory(figure: Figure) -> str:
    from upright.units import memory

    return "unknown" if figure.value is None else memory(figure.value)
