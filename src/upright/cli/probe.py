"""probe: BOX -> its Box, as a page or as JSON, and a recording of it for an issue."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from upright.cli.output import Output, output_options, say

if TYPE_CHECKING:
    from upright.host import Host
    from upright.records.box import Box


@click.command(name="probe")
@click.argument("box", required=False)
@click.option("--measure", is_flag=True, help="Also measure how fast main memory can be read (a few seconds).")
@click.option(
    "--record",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Also write a recording for an issue, without names, serials or addresses.",
)
@output_options
def command(output: Output, box: str | None, measure: bool, record: Path | None) -> None:
    """Look at a machine: processors, memory, GPUs, engines.

    \b
    BOX is this machine when left out, or
      ssh:HOST         another machine, through your own ssh and its configuration
      DIR              a recording made with --record
      FILE             a box.json made with -o
      NAME             a name of the catalogue: upright catalog list boxes
    """
    from upright.cli.box_page import box_page
    from upright.errors import UsageError
    from upright.probing import box_of, probe
    from upright.probing.lookup import host_of

    host = host_of(box)
    if host is None and (measure or record):
        raise UsageError(f"{box} is a description: nothing to measure or record", hint="probe a machine: ssh:HOST")
    if record is not None and host is not None:
        found = _record(host, record, measure)
    else:
        found = box_of(box) if host is None else probe(host, measure=measure)
    output.answer(found, lambda console: box_page(console, found))
    output.next("plan", "MODEL", *(("--box", box) if box else ()))


def _record(host: Host, folder: Path, measure: bool) -> Box:
    from upright import __version__
    from upright.host import RecordingHost
    from upright.probing import probe
    from upright.probing.identity import redaction_for

    recorder = RecordingHost(host)
    found = probe(recorder, measure=measure)
    count = recorder.save(folder, redaction_for(host), made_by=f"upright {__version__}")
    say(f"{count} answers recorded in {folder}, names and addresses taken out; read them before you share them")
    return found
