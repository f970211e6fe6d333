"""Releases that share a model's row, and the artifacts of each.

Releases of one shape share a row: Qwen3-235B-A22B, its Instruct-2507 and its Thinking-2507. They are other weights,
with other templates: who names one never gets another. An artifact belongs to the release whose name its own begins
with, the longest that does.
"""

from __future__ import annotations

from upright.facts.catalog.near_names import as_id
from upright.facts.catalog.rows.model import Artifact, ModelRow


def releases(row: ModelRow) -> tuple[str, ...]:
    """Repositories of the releases that share the row, the row's own first."""
    return (row.repository, *(name for name in row.aliases if "/" in name))


def release_named(row: ModelRow, name: str) -> str | None:
    """`glm-5.1` and `zai-org/GLM-5.1` name zai-org/GLM-5.1; None for a name of the whole row, or of one artifact."""
    wanted = as_id(name)
    if wanted == row.id:
        return None
    return next((release for release in releases(row) if wanted in (release.lower(), _short(release))), None)


def artifacts_of(row: ModelRow, release: str | None) -> tuple[Artifact, ...]:
    """The maker's own first, as in a row; all of them if no release is named."""
    if release is None:
        return row.artifacts
    own = [artifact for artifact in row.artifacts if release_of(row, artifact) == release]
    return tuple(sorted(own, key=lambda artifact: _owner(artifact.repository) != _owner(release)))


def release_of(row: ModelRow, artifact: Artifact) -> str:
    """The row's own where no name tells."""
    begun = [release for release in releases(row) if _begins(artifact.repository, release)]
    return max(begun, key=len, default=row.repository)


def _begins(repository: str, release: str) -> bool:
    """GLM-5.1-FP8 begins with GLM-5.1, and not with GLM-5."""
    name, beginning = _short(repository), _short(release)
    return name == beginning or name.startswith(f"{beginning}-")


def _short(repository: str) -> str:
    return repository.rpartition("/")[2].lower()


def _owner(repository: str) -> str:
    return repository.partition("/")[0].lower()
