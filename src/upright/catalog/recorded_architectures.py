"""Engine + version + architecture -> whether that version's registry lacks it, as recorded.

`registries/ENGINE.json` holds, for each class, the first recorded version that has it, and the last if a newer one
dropped it, from the engine's own registry by `scripts/extract-architectures`. A version between two recorded ones is
judged only where the newer of them lacks the class too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from upright.bounds.values import decoded
from upright.catalog import versions
from upright.catalog.loader import OURS
from upright.catalog.versions import Version

FOLDER = OURS / "registries"


@dataclass(frozen=True)
class LackedArchitecture:
    """A class that a version's registry of models does not have."""

    sentence: str
    since: str
    """The first recorded version that has it."""


@dataclass(frozen=True)
class Registry:
    """What the recorded versions of one engine have."""

    versions: tuple[str, ...]
    """Oldest first."""
    spans: Mapping[str, tuple[str, ...]]

    def lacks(self, architecture: str, version: Version) -> bool:
        """Whether the version is too old for the class; False also where nobody can say."""
        if architecture not in self.spans:
            return False
        since = versions.parse(self.spans[architecture][0])
        older = [parsed for known in self.versions if (parsed := versions.parse(known)) < since]
        return bool(older) and older[0] <= version <= older[-1]


def lacked_architecture(engine: str, version: str | None, architecture: str | None) -> LackedArchitecture | None:
    """None if the version has the class, or nobody recorded it."""
    known = registry(engine)
    if known is None or version is None or architecture is None or "dev" in version:
        return None
    try:
        parsed = versions.parse(version)
    except ValueError:
        return None
    if not known.lacks(architecture, parsed):
        return None
    since = known.spans[architecture][0]
    sentence = (
        f"{engine} {version} does not know {architecture}: its registry of models lacks it, that of {since} has it"
    )
    return LackedArchitecture(sentence, since)


def has(engine: str, architecture: str | None) -> bool:
    """Whether any recorded version of the engine has the class."""
    known = registry(engine)
    return known is not None and architecture in known.spans


@cache
def registry(engine: str) -> Registry | None:
    """None for an engine whose registry nobody recorded."""
    path = FOLDER / f"{engine}.json"
    if not path.exists():
        return None
    content = decoded(path.read_bytes())
    spans = {name: tuple(span) for name, span in content["architectures"].items()}
    return Registry(tuple(content["versions"]), spans)
