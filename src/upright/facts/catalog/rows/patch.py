"""Patches: one edit of one file of an engine, for a silicon that the engine forgot."""

from typing import Annotated, Literal

from pydantic import Field

from upright.facts.catalog.rows.base import NonEmptyText, Row, VersionRange
from upright.facts.records.base import Part

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class KnownFile(Part):
    """A file as released, which the edit was proved on."""

    path: NonEmptyText
    """Inside the directory that holds the engine's package."""
    sha256: Digest
    """Of the file's bytes; any other content is refused."""
    versions: VersionRange
    """Releases that carry exactly these bytes."""


class Edit(Part):
    """A change of one function's syntax tree. Code in a row is what is put in, never what decides."""

    kind: Literal["branch-before", "statement-before"]
    """branch-before: a new first branch of the `if` with that test; statement-before: ahead of that launch."""
    function: NonEmptyText
    """The only function that changes."""
    anchor: NonEmptyText
    """The test of an `if`, or the name of what is launched; must be there exactly once."""
    code: NonEmptyText
    """What is put in, without indentation."""


class Proof(Part):
    """A launch which must go from no to yes."""

    way: NonEmptyText
    """The way through the engine."""
    target: NonEmptyText
    """The silicon."""
    heads: int
    """Query heads on the device."""
    kv_heads: int
    """Key and value heads on the device."""
    key_dim: int
    """Width of a key as the kernel sees it."""
    value_dim: int
    """Width of a value as the kernel sees it."""
    kv_dtype: NonEmptyText
    """Stored type of the cache."""


class PatchRow(Row):
    """A small edit of an installed engine, with its proof and its end."""

    name: NonEmptyText
    """A line for people."""
    engine: Literal["vllm", "sglang"]
    """Whose file."""
    versions: VersionRange
    """Releases that need it."""
    expires: str | None
    """The first release that does not need it; None while no release is known."""
    why: NonEmptyText
    """What goes wrong without it, with the figures."""
    files: Annotated[tuple[KnownFile, ...], Field(min_length=1)]
    """The files that it knows."""
    edit: Edit
    """What is changed."""
    proofs: Annotated[tuple[Proof, ...], Field(min_length=1)]
    """What is compiled before and after."""
