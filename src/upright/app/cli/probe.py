"""`upright probe`: what a machine has, and a recording of it for an issue."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from upright.app.cli.output import Output, output_options, say

if TYPE_CHECKING:
    from upright.base.host import Host, RecordingHost


@click.command(name="probe")
@click.argument("box", required=False)
@click.option("--measure", is_flag=True, help="Also measure how fast system RAM can be read (a few seconds).")
@click.option("--flags", is_flag=True, help="Also ask engines in Python for their flags (imports them: half a minute).")
@click.option(
    "--record",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Also write a recording for an issue, without names, serials or addresses.",
)
@output_options
def command(output: Output, box: str | None, measure: bool, flags: bool, record: Path | None) -> None:
    """Look at a machine: processors, memory, GPUs, engines.

    \b
    BOX is this machine when left out, or
      ssh:HOST         another machine, through your own ssh and its configuration
      DIR              a recording made with --record
      FILE             a box.json made with -o
      NAME             a name of the catalogue: upright catalog list boxes
    """
    from upright.app.pages.box_page import box_page
    from upright.base.errors import UsageError
    from upright.base.host import RecordingHost
    from upright.planning.probing import box_of, probe
    from upright.planning.probing.lookup import host_of

    host = host_of(box)
    if host is None:
        if measure or flags or record:
            raise UsageError(
                f"{box} is a description: nothing to measure, ask or record", hint="probe a machine: ssh:HOST"
            )
        probed_box = box_of(box)
    else:
        _announce(host, measure, flags)
        recorder = RecordingHost(host)
        probed_box = probe(recorder, measure=measure, flags=flags)
        if record is not None:
            _save(recorder, host, record)
    output.answer(probed_box, lambda console: box_page(console, probed_box))
    output.next("plan", "MODEL", *(("--box", box) if box else ()))


def _announce(host: Host, measure: bool, flags: bool) -> None:
    """What takes a while, and what is not what it seems."""
    from upright.base.host import RecordedHost, SshHost

    if isinstance(host, RecordedHost):
        if host.synthetic:
            say(f"a synthetic recording: {host.note}")
        return
    if isinstance(host, SshHost):
        say(f"probing {host.name} over ssh")
    if flags:
        say("asking Python engines for their flags: they import torch first")
    if measure:
        say("reading system RAM for a few seconds")


def _save(recorder: RecordingHost, host: Host, folder: Path) -> None:
    from upright import __version__
    from upright.planning.probing.redaction import redaction_for

    count = recorder.save(folder, redaction_for(host), made_by=f"upright {__version__}")
    say(f"{count} answers recorded in {folder}, names and addresses taken out; read them before you share them")
