"""The simulation of a fleet against four real engines: Poisson arrivals, and conversations of several turns.

The curve comes from another load on the same machine just before, and once more after: where the two differ, something
else took the processor meanwhile and the run says nothing.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.accuracy.four_engines import Curve, Result, curve, four_engines, many_turns, poisson

OFF = 0.15
DRIFT = 0.1


@pytest.mark.engine
@pytest.mark.timing
def test_the_simulation_is_what_four_engines_do(llama_server: Path, tiny_model: Path) -> None:
    _check(llama_server, tiny_model, repeats=5, seconds=1.0, requests=80)


@pytest.mark.engine
@pytest.mark.timing
@pytest.mark.slow
def test_the_simulation_is_what_four_engines_do_for_longer(llama_server: Path, tiny_model: Path) -> None:
    _check(llama_server, tiny_model, repeats=12, seconds=3.0, requests=400)


def _check(server: Path, model: Path, *, repeats: int, seconds: float, requests: int) -> None:
    with four_engines(server, model) as engines:
        for attempt in range(3):
            before = curve(engines, repeats, seconds)
            results = [
                poisson(engines, before, 0.6, requests, seed=100 * attempt + 1),
                many_turns(engines, before, 0.6, requests, seed=100 * attempt + 51),
            ]
            drift = _drift(before, curve(engines, repeats, seconds))
            print(f"slowdowns {before.slowdowns}, drift {drift:+.0%}")
            print("\n".join(result.words() for result in results))
            if abs(drift) <= DRIFT and all(_close(result) for result in results):
                return
    if abs(drift) > DRIFT:
        pytest.skip(f"the engines' own speed changed by {drift:+.0%} meanwhile: this machine is too busy to tell")
    raise AssertionError("\n".join(result.words() for result in results))


def _drift(before: Curve, after: Curve) -> float:
    return after.requests_per_second / before.requests_per_second - 1


def _close(result: Result) -> bool:
    return all(abs(error) <= OFF for error in result.errors().values())
