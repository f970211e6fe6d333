"""Pages of a download: what it needs, and what was fetched."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from upright.serving.fetch import Fetched, FetchNeed


def need_page(console: Console, wanted: FetchNeed) -> None:
    from upright.base.terminal.wrapping import print_wrapped
    from upright.base.units import format_size

    print_wrapped(console, f"{_title(wanted)}: {_files(wanted)}, {format_size(wanted.size_bytes)}")
    table = _table(wanted)
    console.print(table)
    here = f", {format_size(wanted.here_bytes)} are here" if wanted.here_bytes else ""
    print_wrapped(console, f"{format_size(wanted.missing_bytes)} to fetch{here}", 2)
    room = wanted.room
    print_wrapped(console, f"to {room.folder}, which has {format_size(room.free_bytes)} free", 2)
    if room.lacking_bytes:
        print_wrapped(console, f"no: {format_size(room.lacking_bytes)} are missing there", 2)
        for other in room.elsewhere:
            may = "" if other.writable else " (not yours to write in)"
            print_wrapped(console, f"room elsewhere: {format_size(other.free_bytes)} free in {other.folder}{may}", 2)
        if room.elsewhere:
            print_wrapped(console, f"what would help: -o {Path(room.elsewhere[0].folder) / 'DIR'}, or HF_HOME there", 2)


def _table(wanted: FetchNeed) -> object:
    from rich.table import Table

    from upright.base.units import format_size

    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("  file", overflow="fold")
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("here", no_wrap=True)
    shown = wanted.files if len(wanted.files) <= 16 else (*wanted.files[:8], *wanted.files[-7:])
    for index, file in enumerate(shown):
        if len(shown) < len(wanted.files) and index == 8:
            table.add_row(f"  … {len(wanted.files) - len(shown)} more", "", "")
        here = {"here": "yes", "absent": "no", "begun": format_size(file.here_bytes)}[file.state]
        table.add_row(f"  {file.name}", format_size(file.size_bytes), here)
    return table


def fetched_page(console: Console, done: Fetched) -> None:
    from upright.base.terminal.wrapping import print_wrapped
    from upright.base.units import format_duration, format_size

    need = done.need
    print_wrapped(console, f"{_title(need)}: {_files(need)}, {format_size(need.size_bytes)}, all here")
    if need.missing_bytes or done.refetched_files:
        rate = done.received_bytes / max(done.seconds, 0.001)
        took = f"{format_duration(done.seconds)}, {format_size(rate)}/s (measured)"
        print_wrapped(console, f"fetched and verified {format_size(need.missing_bytes)} in {took}", 2)
    else:
        print_wrapped(console, "everything was here already", 2)
    if done.retries:
        print_wrapped(console, f"{done.retries} requests were repeated", 2)
    if done.refetched_files:
        print_wrapped(console, f"{done.refetched_files} files had wrong bytes and were fetched again", 2)
    if done.unverified:
        print_wrapped(console, f"only by length, the hub tells no hash: {', '.join(done.unverified[:3])}", 2)
    console.print(f"  {done.path}", soft_wrap=True, markup=False)


def _title(need: FetchNeed) -> str:
    return f"{need.source} at {need.revision[:12]}"


def _files(need: FetchNeed) -> str:
    return "one file" if len(need.files) == 1 else f"{len(need.files)} files"
