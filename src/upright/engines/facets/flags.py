"""Case -> the words of an engine's command line, each with its reason.

An engine knows its flags, by version; it knows nothing of machines, containers or files. Which spelling a version takes
is never written down twice: engines ask `Accepted`, which has the recorded flags of that version.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from upright.facts.catalog.recorded_flags import nearest_flags
from upright.facts.catalog.rows.engine import ImageRow
from upright.facts.catalog.rows.model import ModelRow
from upright.facts.records.box import Box, EngineInstall
from upright.facts.records.model import Model
from upright.facts.records.plan import Plan
from upright.facts.records.recipe import Setting


class Serving(NamedTuple):
    """What the person decides about a deployment, beyond the plan."""

    model_path: str
    served_name: str
    host: str
    port: int
    from_hub: bool = False
    """model_path is OWNER/REPO:QUANT, and the engine brings it."""
    vision: bool = False
    """Serve images too; the safe start is text only."""
    prefix_caching: bool = True
    """Keep the cache of prompts that begin alike."""
    patched: bool = False
    """The image or build carries the community's SM120 patches."""
    image: ImageRow | None = None
    """The container image that holds the engine, as the catalogue knows it."""
    draft_path: str | None = None
    """Another draft model than the catalogue's."""
    node: int = 0
    """Which of the boxes that hold the model together."""
    leader: str = "node-0"
    """Where the first of them is reached by the others."""


@dataclass(frozen=True)
class Accepted:
    """The flags that one version of an engine takes."""

    flags: frozenset[str]
    version: str | None
    """The version they were recorded from."""

    def __contains__(self, flag: object) -> bool:
        return not self.flags or flag in self.flags

    def first(self, *spellings: str) -> str | None:
        """The first spelling that this version takes; None if it takes none."""
        return next((spelling for spelling in spellings if spelling in self), None)


class FlagCase(NamedTuple):
    """Everything that decides a command line."""

    plan: Plan
    model: Model
    box: Box
    serving: Serving
    row: ModelRow | None
    """What the catalogue knows of the model: parsers, drafts, sampling."""
    accepted: Accepted
    install: EngineInstall | None = None
    """The engine as found on the box; None if it is not there."""


class Flags(Protocol):
    """The facet that no engine can be without."""

    def arguments(self, case: FlagCase) -> tuple[Setting, ...]:
        """The words in order, each with its reason."""
        ...

    def environment(self, case: FlagCase) -> tuple[Setting, ...]: ...

    def notes(self, case: FlagCase) -> tuple[str, ...]:
        """What was left out or must be known, in sentences."""
        ...


def accepted(engine: str, version: str | None, box: Box | None) -> Accepted:
    """What the engine on the box says itself, else what was recorded of its version or its nearest older one."""
    engines = box.engines if box else ()
    installed = next(
        (installation for installation in engines if installation.engine == engine and installation.flags), None
    )
    if installed is not None and installed.flags:
        return Accepted(frozenset(installed.flags), installed.version)
    recorded = nearest_flags(engine, version)
    return Accepted(recorded.flags, recorded.version) if recorded else Accepted(frozenset(), None)
