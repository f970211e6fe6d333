"""The simulation of a fleet against four real engines: Poisson arrivals, and conversations of several turns.

The curve comes from another load on the same engines just before.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.accuracy.four_engines import curve, four_engines, many_turns, poisson

OFF = 0.15


@pytest.mark.engine
@pytest.mark.timing
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_simulation_is_what_four_engines_do(llama_server: Path, tiny_model: Path, tmp_path: Path) -> None:
    with four_engines(llama_server, tiny_model, tmp_path) as engines:
        known = curve(engines, repeats=4)
        results = [
            poisson(engines, known, 0.8, conversations=60, seed=1),
            many_turns(engines, known, 0.8, conversations=15, seed=501),
        ]
    print("\n".join(result.words() for result in results))
    for result in results:
        assert all(abs(error) <= OFF for error in result.errors().values()), result.words()
