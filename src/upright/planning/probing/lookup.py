"""BOX as people write it -> Box: this machine, ssh:HOST, a file, a recording, or a name of the catalogue."""

from __future__ import annotations

from pathlib import Path

from upright.base.errors import CatalogError, UsageError
from upright.base.host import Host, LocalHost, RecordedHost, SshHost
from upright.base.host.recorded import INDEX
from upright.facts.records.box import Box
from upright.facts.records.loading import load
from upright.planning.probing.probe_rounds import probe

THIS_MACHINE = "here"
SSH = "ssh:"


def box_of(text: str | None = None) -> Box:
    """Nothing, or `here`, is this machine."""
    host = host_of(text)
    if host is not None:
        return probe(host)
    assert text is not None
    path = Path(text)
    if path.is_file():
        return load(path, Box)
    if path.exists() or path.suffix == ".json" or text.startswith((".", "/", "~")):
        missing = "is a folder without a recording" if path.exists() else "is not there"
        raise UsageError(f"{text} {missing}", hint="a box.json (upright probe -o box.json) or a folder of --record")
    return _from_catalog(text)


def host_of(text: str | None = None) -> Host | None:
    """The machine to look at; None when BOX is a description and no machine."""
    if text is None or text == THIS_MACHINE:
        return LocalHost()
    if text.startswith(SSH):
        return SshHost(text.removeprefix(SSH))
    return RecordedHost(Path(text)) if (Path(text) / INDEX).is_file() else None


def _from_catalog(name: str) -> Box:
    from upright.facts import catalog

    try:
        return catalog.box_record(name)
    except CatalogError as error:
        near = f"{error.hint}; " if error.hint and error.hint.startswith("near") else ""
        raise UsageError(
            f"{name} is no box: not a file, not ssh:HOST, and no name of the catalogue",
            hint=f"{near}a number of GPUs is one too: 6x-rtx-4090; upright catalog list boxes",
        ) from None
