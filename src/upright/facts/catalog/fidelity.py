"""How near a build's weights are to the native ones, with the source that says so.

Nothing is called equal without one. Where nothing was published, bits tell near from lossy: with fewer than 3.5 a
weight every comparison that was found has lost much (Kimi K2.6: perplexity 1.84 at 4.5 bits, 2.41 at 2.6).
"""

from __future__ import annotations

from typing import cast

from upright.facts import catalog
from upright.facts.catalog.rows.model import Artifact, Fidelity, Level, ModelRow, SchemeRow
from upright.facts.catalog.sister_releases import release_of
from upright.facts.records.model import Model

LEVELS: tuple[Level, ...] = ("native", "equal", "near", "lossy")
NEAR_BITS = 3.5
_ALIKE_BITS = 7.9


def expert_bits(model: Model) -> float:
    """Bits of a routed weight, scales included; of any weight if there are no experts."""
    lines = [line for line in model.weights if line.group == "routed_experts"] or list(model.weights)
    parameters = sum(line.parameters for line in lines)
    return 8 * sum(line.bytes for line in lines) / parameters if parameters else 0.0


def fidelity_of(model: Model) -> Fidelity:
    """By the catalogue's row of the artifact; of files that it does not know, by their type and bits."""
    row = catalog.find_model(model.source) or catalog.find_model(model.name)
    artifact = _artifact(row, model) if row else None
    if row is not None and artifact is not None:
        return artifact_fidelity(row, artifact, expert_bits(model))
    return _of_scheme(model.name.rpartition(":")[2], expert_bits(model))


def artifact_fidelity(row: ModelRow, artifact: Artifact, bits: float | None) -> Fidelity:
    """`bits` of a routed weight, where they are known; without them what has no source counts as lossy."""
    if artifact.fidelity is not None:
        return artifact.fidelity
    release = release_of(row, artifact)
    if artifact.repository == release and artifact.quant is None:
        return Fidelity(level="native", source=f"{release}: as its maker published it")
    known = _of_scheme(artifact.quant or artifact.scheme, bits)
    by_maker = artifact.format != "gguf" and _owner(artifact.repository) == _owner(release)
    if by_maker and (bits or 0) >= _ALIKE_BITS:
        return Fidelity(level="equal", source=f"{artifact.repository}: its maker's own build of {bits:.0f} bits")
    return known


def _of_scheme(name: str, bits: float | None) -> Fidelity:
    scheme = cast("SchemeRow | None", catalog.rows("schemes").get(name))
    if scheme is not None and scheme.fidelity is not None:
        return scheme.fidelity
    if bits is None:
        return Fidelity(level="lossy", source="neither its bits nor a comparison were published")
    level: Level = "near" if bits >= NEAR_BITS else "lossy"
    return Fidelity(level=level, source=f"{bits:.1f} bits a weight; no comparison was published")


def _artifact(row: ModelRow, model: Model) -> Artifact | None:
    """By its source, else by its name alone."""
    for known in (model.source.lower(), model.name.lower()):
        for artifact in row.artifacts:
            whole = f"{artifact.repository}:{artifact.quant}" if artifact.quant else artifact.repository
            if known in (whole.lower(), whole.rpartition("/")[2].lower()):
                return artifact
    return None


def _owner(repository: str) -> str:
    return repository.partition("/")[0].lower()
