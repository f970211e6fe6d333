"""A Model by its catalogue name: offline, before anything is downloaded."""

from __future__ import annotations

from upright.base.errors import ReadError
from upright.facts import catalog
from upright.facts.catalog.sister_releases import artifacts_of, release_named
from upright.facts.records.model import Model
from upright.models.deriving.catalogue_models import record
from upright.models.reading.tensor_names import family_of


def from_catalog(source: str) -> Model | None:
    """`kimi-k2.6` is the row's first artifact whose size is known, `kimi-k2.6:IQ3_K` that quant; None for no row."""
    model = _first_artifact(source)
    if model is None:
        return None
    family = family_of(model.architecture.name)
    return model.model_copy(
        update={
            "source": source,
            "architecture": model.architecture.model_copy(update={"family": family.id if family else None}),
        }
    )


def catalogued_repository(source: str) -> str | None:
    """`owner/repo[:QUANT]` of the artifact that `from_catalog` takes."""
    model = _first_artifact(source)
    return model.source if model else None


def _first_artifact(source: str) -> Model | None:
    name, _, quant = source.partition(":")
    row = catalog.find_model(name)
    if row is None:
        return None
    built = [entry for entry in row.artifacts if name.lower() == entry.repository.lower()]
    release = artifacts_of(row, release_named(row, name))
    wanted = [entry for entry in built or release if not quant or (entry.quant or "").lower() == quant.lower()]
    models = [model for model in (record(row, artifact) for artifact in wanted) if model is not None]
    if not models:
        quants = ", ".join(sorted({entry.quant for entry in row.artifacts if entry.quant}))
        what = f"no quantisation {quant}" if quant else "no artifact whose size is known"
        raise ReadError(f"the catalogue's {row.id} has {what}", hint=f"it has {quants}" if quants and quant else None)
    return models[0]
