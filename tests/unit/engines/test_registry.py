"""Ours by folder, others by entry point; nothing is loaded before it is asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from upright.base.errors import EngineError
from upright.base.extensions import extensions
from upright.engines import ENGINES, OURS, engine_named
from upright.engines.contract import Facet

ENGINE = """
from upright.engines.contract import Engine
from upright.engines.facets.http import Http

class Bare(Engine):
    name = "bare"
    title = "Bare"
    loads = ("safetensors",)
    program = "bare"
    where_from = "nowhere"
    http = Http("/health", None, metrics_guarded=False, key_way="file")
    flags = None

ENGINE = Bare()
"""


def brought(folder: Path, target: str, code: str = ENGINE) -> None:
    (folder / "bare_engine.py").write_text(code)
    metadata = folder / "bare_engine-1.0.dist-info"
    metadata.mkdir()
    (metadata / "entry_points.txt").write_text(
        f"[console_scripts]\nbare = x:y\n\n[upright.engines]\n# a comment\nbare = {target}\n"
    )


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "bare_engine", raising=False)
    yield tmp_path
    sys.modules.pop("bare_engine", None)
    ENGINES._loaded.pop("bare", None)  # type: ignore[attr-defined]


def test_ours_are_the_folders():
    here = Path(sys.modules["upright.engines"].__file__ or "").parent
    assert sorted(OURS.values()) == sorted(
        path.parent.name for path in here.glob("*/flags.py") if path.parent.name != "facets"
    )
    assert all(ENGINES[name].name == name for name in OURS)


def test_a_name_loads_nothing():
    code = "import upright.engines as e, sys; list(e.ENGINES); print([m for m in sys.modules if 'engines.' in m])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


@pytest.mark.parametrize("name", OURS)
def test_facets_are_where_the_engine_says_and_of_the_type_that_it_says(name: str):
    engine = type(ENGINES[name])()
    facets = [facet for facet, value in vars(type(engine)).items() if isinstance(value, Facet)]
    assert "flags" in facets
    assert not vars(engine)
    for facet in facets:
        known = getattr(engine, facet)
        kind = "Flags" if facet == "flags" else type(known).__name__  # mypy holds each FLAGS to its protocol
        assert type(engine).__annotations__[facet] == f"Facet[{kind}]"
        assert getattr(engine, facet) is known


def test_an_engine_loads_no_facet():
    code = (
        "from upright.engines import ENGINES; import sys; engines = list(ENGINES.values()); "
        "print([m for m in sys.modules if 'engines.' in m and m.endswith(('.log', '.flags', '.proof'))])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_a_package_elsewhere_brings_an_engine(on_path: Path):
    brought(on_path, "bare_engine:ENGINE")
    assert extensions()["bare"].package == "bare_engine"
    assert list(ENGINES) == [*OURS, "bare"]
    assert engine_named("bare").title == "Bare"
    assert engine_named("bare").spread is None
    assert engine_named("bare").log.memory("Model loading took 3 GiB").readings == ()


@pytest.mark.parametrize(
    ("target", "code", "message"),
    [
        ("bare_engine:NOTHING", ENGINE, "has no attribute 'NOTHING'"),
        ("bare_engine:ENGINE", "raise RuntimeError('no CUDA')", "no CUDA"),
        ("bare_engine:ENGINE", ENGINE.replace('name = "bare"', 'name = "other"'), "is no engine named bare"),
        ("bare_engine:ENGINE", "ENGINE = 3", "is no engine named bare"),
    ],
)
def test_a_broken_package_is_named(on_path: Path, target: str, code: str, message: str):
    brought(on_path, target, code)
    with pytest.raises(EngineError, match=message) as error:
        engine_named("bare")
    assert error.value.hint == "mend or remove the package bare_engine"


def test_a_package_cannot_take_the_place_of_ours(on_path: Path):
    brought(on_path, "bare_engine:ENGINE")
    entry = on_path / "bare_engine-1.0.dist-info/entry_points.txt"
    entry.write_text("[upright.engines]\nvllm = bare_engine:ENGINE\n")
    assert list(ENGINES) == list(OURS)
    assert engine_named("vllm").title == "vLLM"
