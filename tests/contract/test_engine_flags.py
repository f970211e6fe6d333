"""Every flag that an engine can emit, over boxes, models, goals and versions, is one that the version takes."""

from __future__ import annotations

import json

import pytest

from tests import recipes
from upright.engines import ENGINES, engine_named
from upright.facts.catalog.recorded_flags import nearest_flags, recorded_flags, recorded_versions

EVERY = [(engine, version) for engine in ENGINES for version in recorded_versions(engine)]
ENDS = list(dict.fromkeys((engine, recorded_versions(engine)[end]) for engine in ENGINES for end in (0, -1)))
LEADS = {"serve", "-m"}


@pytest.mark.parametrize(("engine", "version"), ENDS)
def test_every_flag_exists_in_that_version(engine: str, version: str) -> None:
    _assert_known(engine, version, few=True)


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "version"), EVERY)
def test_every_flag_exists_in_the_wide_sweep(engine: str, version: str) -> None:
    _assert_known(engine, version, few=False)


def _assert_known(engine: str, version: str, *, few: bool) -> None:
    known = recorded_flags(engine, version)
    assert known is not None
    emitted = set()
    for case in recipes.cases(engine, version, few=few):
        emitted |= {setting.name for setting in engine_named(engine).flags.arguments(case)} - LEADS
    assert len(emitted) > 10
    assert emitted <= known.flags, sorted(emitted - known.flags)


@pytest.mark.parametrize("engine", list(ENGINES))
def test_settings_have_reasons_no_key_and_valid_json(engine: str) -> None:
    for case in recipes.cases(engine, recorded_versions(engine)[-1]):
        arguments = engine_named(engine).flags.arguments(case)
        for setting in (*arguments, *engine_named(engine).flags.environment(case)):
            assert setting.reason
            assert setting.name != "--api-key"
            if setting.value and setting.value.startswith('{"'):
                json.loads(setting.value)
        names = [setting.name for setting in arguments if setting.name != "--override-tensor"]
        assert len(names) == len(set(names))


def test_spellings_follow_the_version() -> None:
    old = {word for line in recipes.command_lines("sglang", "0.5.8") for word in line}
    new = {word for line in recipes.command_lines("sglang", "0.5.23") for word in line}
    assert "--cuda-graph-max-bs" in old - new
    assert "--cuda-graph-max-bs-decode" in new - old


def test_a_version_that_nobody_recorded_is_judged_by_its_older_neighbour() -> None:
    found = nearest_flags("vllm", "0.24.3")
    assert found is not None
    assert found.version == "0.24.0"
    assert recorded_flags("vllm", "0.24.3") is None
    assert nearest_flags("nothing", "1.0") is None
