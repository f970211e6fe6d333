"""What kernels were judged -> the page that a person reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from upright.base.terminal.wrapping import print_wrapped

if TYPE_CHECKING:
    from rich.console import Console

    from upright.facts.records.kernel import KernelCheck, MoeCheck, MoeModel, TileSearch

MARKS = {"fits": "yes", "does-not-fit": "NO", "could-not-determine": "?"}
WORDS = {"fits": "fits", "does-not-fit": "does not fit", "could-not-determine": "could not determine"}


def check_page(console: Console, found: KernelCheck) -> None:
    where = f"{found.box} ({found.target})" if found.box else found.target
    version = f"{found.engine} {found.engine_version or '(version unknown)'}"
    answer = "what was judged fits" if found.answer == "fits" and found.not_judged else WORDS[found.answer]
    print_wrapped(console, f"{found.model} on {where} with {version}: {answer}")
    print_wrapped(console, f"{found.engine_source}; compiled with {found.triton}", 2)
    for item in found.verdicts:
        print_wrapped(console, f"{MARKS[item.verdict]:<4} {item.path} {item.kernel}: {item.why}", 2)
        print_wrapped(console, item.launch, 7)
        if item.short_bytes:
            print_wrapped(console, f"short by {item.short_bytes:,} bytes", 7)
        if item.remedy:
            print_wrapped(console, f"try {item.remedy}", 7)
    for other in found.not_judged:
        print_wrapped(console, f"not judged: {other}", 2)


def tiles_page(console: Console, found: TileSearch) -> None:
    from rich.table import Table

    from upright.base.units import format_duration

    version = f"{found.engine} {found.engine_version or '(version unknown)'}"
    limit = f"{found.limit_bytes:,}" if found.limit_bytes is not None else "an unknown number of"
    print_wrapped(console, f"{version} {found.path} {found.kernel} on {found.target}: {limit} bytes a block")
    print_wrapped(console, f"{found.launch}; {found.compiled} of {len(found.tiles)} tiles compiled", 2)
    print_wrapped(console, f"{found.triton}; {format_duration(found.seconds)}", 2)
    table = Table(box=None, pad_edge=False)
    for name in (*found.tiles[0].tile, "fits", "shared", "registers", "spills"):
        table.add_column(name.replace("num_", ""), justify="right")
    table.add_column("")
    for tile in found.tiles:
        if not tile.inferred:
            numbers = (tile.needed_bytes, tile.registers, tile.spill_bytes)
            cells = (f"{number:,}" if number is not None else "" for number in numbers)
            note = "its choice" if tile.chosen else tile.why or ""
            table.add_row(*map(str, tile.tile.values()), MARKS[tile.verdict], *cells, note)
    console.print(table)
    left_out = sum(tile.inferred for tile in found.tiles)
    if left_out:
        print_wrapped(console, f"{left_out} larger ones not compiled: a smaller one does not fit", 2)
    print_wrapped(console, "`its choice` is what the engine takes by itself on this target", 2)


def moe_page(console: Console, found: MoeCheck) -> None:
    version = f"{found.engine} {found.engine_version or '(version unknown)'}"
    limit = f"{found.limit_bytes:,}" if found.limit_bytes is not None else "an unknown number of"
    print_wrapped(console, f"{version}, tuned MoE files on {found.target}: {limit} bytes a block")
    if found.model is not None:
        _model_lines(console, found.model, found.engine)
    if found.devices:
        _devices_table(console, found)
    for why in sorted({row.why for row in found.devices if row.why}):
        print_wrapped(console, f"unknown: {why}", 2)
    for candidate in found.candidates:
        numbers = " ".join(f"{name.removeprefix('BLOCK_SIZE_')} {value}" for name, value in candidate.tile.items())
        batches = f"batch {candidate.batch_from} to {candidate.batch_to}"
        print_wrapped(
            console, f"{numbers}: {candidate.needed_bytes:,} bytes, {batches}, used {candidate.used} times", 2
        )


def _model_lines(console: Console, loads: MoeModel, engine: str) -> None:
    print_wrapped(console, f"{loads.model}: {loads.experts}", 2)
    if loads.file_name is not None:
        shipped = "this release has it" if loads.ships else "this release has none: its default tiles run"
        print_wrapped(console, f"looks for {loads.file_name}: {shipped}", 2)
    elif loads.tuner is not None:
        print_wrapped(console, "which GPU it is, by its driver's name, is not known: no file can be named", 2)
    for item in loads.verdicts:
        print_wrapped(
            console, f"{MARKS[item.verdict]:<4} {item.launch.removeprefix(f'{loads.experts}, ')}: {item.why}", 2
        )
    if loads.tuner is not None and not loads.ships:
        print_wrapped(console, f"to make it, on that GPU and in a clone of {engine}: {loads.tuner}", 2)
        if loads.place is not None:
            print_wrapped(console, f"then: {loads.place}; upright tools kernels moe --tuned FILE tries it before", 2)


def _devices_table(console: Console, found: MoeCheck) -> None:
    from rich.table import Table

    print_wrapped(console, f"{found.tiles} distinct tiles; {found.triton}", 2)
    table = Table(box=None, pad_edge=False)
    table.add_column("tuned on", overflow="fold")
    for name in ("type", "files", "over", "entries", "over", "unknown", "most"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in found.devices:
        counts = (row.files, row.files_over, row.entries, row.entries_over, row.entries_unknown)
        most = f"{row.most_bytes:,}" if row.most_bytes is not None else "?"
        table.add_row(row.device.removeprefix("NVIDIA_"), row.dtype, *map(str, counts), most)
    console.print(table)
