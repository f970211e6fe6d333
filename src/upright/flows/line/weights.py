"""The path of a model's weights: found on this disk, or fetched."""

from __future__ import annotations

from pathlib import Path

from upright.base import units
from upright.base.errors import LaunchError
from upright.facts.records.model import Model
from upright.planning.requests.preparation import Locate
from upright.serving.fetch import BackgroundFetch, find_weights


def weights_on_disk(source: str, model: Model) -> str:
    """Where the engine finds the weights; an engine of ours downloads nothing by itself."""
    weights_path = _found(source, model)
    if weights_path is None:
        raise LaunchError(
            f"the weights of {model.name} are not on this disk ({units.format_size(model.tensor_bytes)})",
            hint=f"upright fetch {repository(source, model)}",
        )
    return weights_path


def fetch_if_missing(source: str, weights: BackgroundFetch) -> Locate:
    """Weights that are not on this disk are fetched from here on, if they may be."""

    def locate(model: Model) -> str:
        return _found(source, model) or weights.begin(repository(source, model), model.revision)

    return locate


def repository(source: str, model: Model) -> str:
    """What a catalogue name stands for; otherwise what was named."""
    return model.source if model.basis == "catalog" else source


def _found(source: str, model: Model) -> str | None:
    """Names are kept as they are: a split GGUF finds its parts by its name, which a link's target need not have."""
    for path in (source, model.path, find_weights(repository(source, model), model.revision)):
        if path and Path(path).exists():
            return str(Path(path).absolute())
    return None
