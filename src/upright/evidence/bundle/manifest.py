"""What is in a bundle: the first file of the archive, and what `upright share bundle` answers."""

from __future__ import annotations

import re
from typing import Literal

from upright.facts.records.base import Part

NAME = "manifest.json"
PLAIN_NAME = re.compile(r"(?=.{1,100}\Z)[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?")
"""Of a file in a bundle: whatever else is called, or is longer, would need a second head in the archive."""


class BundledFile(Part):
    """One file of the archive."""

    name: str
    """Path inside the archive, and inside the deployment's directory."""
    kind: Literal["record", "evidence", "text"]
    """A record, the chained log of evidence, or text such as an engine's log."""
    size_bytes: int
    """Length in the archive."""
    sha256: str
    """Of those bytes."""
    original_bytes: int
    """Length on the disk that it came from: more, if the middle of a log was left out."""


class Redaction(Part):
    """Something that was taken out."""

    what: str
    """What it was, never its value."""
    times: int
    """How often."""


class Manifest(Part):
    """A bundle's table of contents."""

    format: Literal[1] = 1
    """Of this file and of the archive."""
    upright: str
    """The version that packed it."""
    deployment: str
    """The deployment's name."""
    files: tuple[BundledFile, ...]
    """In the order of the archive."""
    redactions: tuple[Redaction, ...]
    """What was taken out everywhere."""
    digests: dict[str, str]
    """The reference of each record on the disk it came from -> its reference here, where redaction changed it."""
    left_out: tuple[str, ...]
    """Files of the directory that are not here: keys, locks, pages, what is not text."""


class WrittenBundle(Part):
    """A bundle that was written."""

    path: str
    """Where it is."""
    size_bytes: int
    """How long it is."""
    sha256: str
    """Of the whole file: the same deployment gives the same."""
    manifest: Manifest
    """What is in it."""
