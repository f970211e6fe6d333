"""Engine + version + architecture -> whether that version's registry lacks it, as recorded.

`registries/ENGINE.json` holds, for each class, the first recorded version that has it, and the last if a newer one
dropped it, from the engine's own registry by `scripts/extract-architectures`. A version between two recorded ones is
judged only where the newer of them lacks the class too.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, cast

from upright.base.bounds.bounded_json import parse_json
from upright.facts.catalog import loader, versions
from upright.facts.catalog.loader import OURS
from upright.facts.catalog.versions import Version

if TYPE_CHECKING:
    from upright.facts.catalog.rows.architecture import ArchitectureRow

FOLDER = OURS / "registries"


class MissingArchitecture(NamedTuple):
    """A class that a version's registry of models does not have."""

    sentence: str
    since: str
    """The first recorded version that has it."""


class Registry(NamedTuple):
    """What the recorded versions of one engine have."""

    versions: tuple[str, ...]
    """Oldest first."""
    spans: Mapping[str, tuple[str, ...]]

    def since(self, architecture: str | None) -> str | None:
        """The first recorded version that has the class; None if none has."""
        span = self.spans.get(architecture or "") or self.spans.get(_own_name(architecture) or "")
        return span[0] if span else None

    def lacks(self, architecture: str, version: Version) -> bool:
        """Whether the version is too old for the class; False also where nobody can say."""
        if (first := self.since(architecture)) is None:
            return False
        since = versions.parse(first)
        older = [parsed for known in self.versions if (parsed := versions.parse(known)) < since]
        return bool(older) and older[0] <= version <= older[-1]


def missing_architecture(engine: str, version: str | None, architecture: str | None) -> MissingArchitecture | None:
    """None if the version has the class, or nobody recorded it."""
    known = registry(engine)
    if known is None or version is None or architecture is None or "dev" in version:
        return None
    try:
        parsed = versions.parse(version)
    except ValueError:
        return None
    since = known.since(architecture)
    if since is None or not known.lacks(architecture, parsed):
        return None
    own = architecture if architecture in known.spans else _own_name(architecture)
    sentence = f"{engine} {version} does not know {own}: its registry of models lacks it, that of {since} has it"
    return MissingArchitecture(sentence, since)


def has(engine: str, architecture: str | None) -> bool:
    """Whether any recorded version of the engine has the class."""
    known = registry(engine)
    return known is not None and known.since(architecture) is not None


def _own_name(architecture: str | None) -> str | None:
    """What the maker's configuration says where a copy of it was given another class; None if there is no such copy."""
    rows = cast("Mapping[str, ArchitectureRow]", loader.rows("architectures")).values()
    return next((row.renamed[architecture] for row in rows if architecture in row.renamed), None)


@cache
def registry(engine: str) -> Registry | None:
    """None for an engine whose registry nobody recorded."""
    path = FOLDER / f"{engine}.json"
    if not path.exists():
        return None
    content = parse_json(path.read_bytes())
    spans = {name: tuple(span) for name, span in content["architectures"].items()}
    return Registry(tuple(content["versions"]), spans)
