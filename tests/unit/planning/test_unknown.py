"""An engine that does not say enough gets no plan by another engine's rule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from upright.engines import ENGINES
from upright.engines.contract import Engine
from upright.engines.facets.http import Http
from upright.engines.facets.spread import Layers, Ranks
from upright.facts import catalog
from upright.facts.catalog.model_records import record
from upright.facts.records.model import Model
from upright.facts.records.plan import Goal
from upright.planning.choosing.table import plan


class Silent(Engine):
    """Says nothing but its name."""

    name = "silent"
    title = "Silent"
    loads = ("safetensors", "gguf")
    program = "silent"
    where_from = "nowhere"
    http = Http("/health", None, metrics_guarded=False, key_way="file")
    flags: Any = None


class Spread(Silent):
    """Divides layers as vLLM does, and says nothing of memory."""

    spread = Ranks(vision="divided")


class Priced(Spread):
    """Takes shares as vLLM does, and has no rows."""

    budget = ENGINES["vllm"].budget


class Layered(Silent):
    """Places layers as llama.cpp does, and has no rows."""

    spread = Layers()
    budget = ENGINES["llama.cpp"].budget


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    known = dict(ENGINES)

    def register(engine: Engine) -> None:
        import upright.engines as registry
        from upright.base.extensions import Extension

        monkeypatch.setattr(registry, "extensions", lambda: {"silent": Extension("silent", "x", "y", "z")})
        monkeypatch.setitem(ENGINES._loaded, "silent", engine)  # type: ignore[attr-defined]

    yield register
    assert set(known) <= set(ENGINES)


def kimi(of: str) -> Model:
    row = catalog.model("kimi-k2.6")
    made = (record(row, artifact) for artifact in row.artifacts if artifact.format == of)
    return next(model for model in made if model is not None)


@pytest.mark.parametrize(
    ("engine", "of", "lacking"),
    [
        (Silent(), "safetensors", "how it spreads a model over devices: not known of silent"),
        (Spread(), "safetensors", "what it may use of a GPU: not known of silent"),
        (Priced(), "safetensors", "`runtime`"),
        (Layered(), "gguf", "`upload`"),
    ],
)
def test_not_known_is_said(registered: Any, engine: Engine, of: str, lacking: str):
    registered(engine)
    box = catalog.box_record("8x-rtx-pro-6000")
    best = plan(box, kimi(of), Goal(engine="silent"))[0]
    assert not best.fits
    assert [(each.code, lacking in each.message) for each in best.objections] == [("engine-not-known", True)]
    assert best.ledger == ()
    assert best.speed is None


def test_it_stands_behind_what_is_known(registered: Any):
    registered(Silent())
    ranked = plan(catalog.box_record("8x-rtx-pro-6000"), kimi("safetensors"))
    assert ranked[0].engine == "vllm"
    assert ranked[0].fits
    assert ranked[-1].engine == "silent"
