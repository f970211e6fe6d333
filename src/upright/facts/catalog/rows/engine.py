"""What engines do on which silicon, the images that hold them, and their flags."""

from typing import Annotated, Literal

from pydantic import Field

from upright.facts.catalog import versions
from upright.facts.catalog.rows.base import NonEmptyText, Row, VersionRange
from upright.facts.records.base import Part

Engine = NonEmptyText
"""An engine's name, as people type it; a test holds ours against the engines that there are."""
Status = Literal["works", "prove-first", "slow", "refused", "fails"]


class CompatRow(Row):
    """One feature of one engine on some silicon: does it work there?"""

    engine: Engine
    """Which engine."""
    versions: VersionRange
    """Versions that this is true for."""
    compute_capability: VersionRange
    """Silicon that this is true for: `>=12.0,<13`."""
    patched: bool = False
    """True if it speaks of community builds, which carry patches; upstream otherwise."""
    feature: NonEmptyText
    """What is asked for, short."""
    backend: str | None = None
    """The backend or option, as the engine spells it."""
    status: Status
    """works; prove-first (for some); slow; refused by the engine itself; fails: it dies or answers wrongly."""
    about: NonEmptyText
    """What happens."""
    instead: str | None = None
    """What to do about it; None when it works."""

    def holds(self, version: str | None, compute_capability: str | None) -> bool:
        """Whether the row speaks of this version and silicon; None asks for any."""
        return (version is None or versions.in_range(version, self.versions)) and (
            compute_capability is None or versions.in_range(compute_capability, self.compute_capability)
        )


class ImageSetting(Part):
    """A variable or a flag that an image is run with."""

    name: NonEmptyText
    """`NCCL_PROTO`, or `--compilation-config`."""
    value: str | None = None
    """None for a flag that stands alone; an empty variable is an empty string."""
    reason: NonEmptyText
    """Why it is there."""
    models: tuple[str, ...] = ()
    """Only for these rows of the catalogue's models; empty for all."""
    needs_peer_access: bool = False
    """Only where GPUs reach each other's memory over PCIe."""


class ImageRow(Row):
    """A container image: an engine of its own, and what is in it."""

    reference: NonEmptyText
    """What `docker pull` takes; tags move, so pin the digest of what you pulled."""
    digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")] | None = None
    """Of the manifest that was pulled and looked at; None if nobody wrote it down."""
    engine: Engine
    """Which engine."""
    kind: Literal["upstream", "community"]
    """Who builds it."""
    date: str
    """When the tag was made; `rolling` if it moves."""
    compute_capability: VersionRange
    """Silicon that it is built for."""
    contains: tuple[str, ...]
    """Versions and parts that its maker names."""
    patches: tuple[str, ...] = ()
    """What it has that upstream has not."""
    models: tuple[str, ...] = ()
    """Model rows that it was made for or published with."""
    version: str | None = None
    """What the engine inside says of itself; None if that is not known, or moves with the tag."""
    commit: str | None = None
    """The commit that it was built from."""
    near_version: str | None = None
    """The release before it: its flags, constraints and advisories are taken where the image's own are not known."""
    program: str | None = None
    """Where the engine's program is inside; None for one on the PATH."""
    variables: tuple[ImageSetting, ...] = ()
    """Environment that its maker runs it with."""
    arguments: tuple[ImageSetting, ...] = ()
    """Flags that its maker runs it with, beyond what a plan decides."""
    packages: tuple[str, ...] = ()
    """Python packages that are installed into it before the engine starts: `name==version`."""
    profiler: str | None = None
    """What its memory profiler counts, where that is not what upstream's does."""
    breaks: tuple[str, ...] = ()
    """What it is known to break, each in a sentence."""
    about: NonEmptyText
    """What it is for."""
    caution: str | None = None
    """What to know before using it."""

    @property
    def pinned(self) -> str:
        """By its digest where one is recorded: podman takes no tag beside it."""
        name, slash, tail = self.reference.rpartition("/")
        return f"{name}{slash}{tail.partition(':')[0]}@{self.digest}" if self.digest else self.reference


class FlagRow(Row):
    """What a flag of an engine means, and where it bites."""

    engine: Engine
    """Which engine."""
    flags: Annotated[tuple[NonEmptyText, ...], Field(min_length=1)]
    """Every spelling, the long one first."""
    versions: VersionRange = "*"
    """Versions that take it."""
    value: str | None = None
    """What follows it; None if it stands alone."""
    default: str | None = None
    """What holds without it."""
    means: NonEmptyText
    """What it does."""
    matters: str | None = None
    """Why one would set it."""
    catch: str | None = None
    """Where it bites."""
