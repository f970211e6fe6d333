"""The simulation of a fleet against four real engines: Poisson arrivals, and conversations of several turns.

The curve comes from another load on the same machine just before; the loads come in blocks, with a look at the engines'
speed between them, since they share two cores with whatever else runs.
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
def test_the_simulation_is_what_four_engines_do(llama_server: Path, tiny_model: Path) -> None:
    """Once, and no way out: blocks that say nothing are left out, and most of them must say something."""
    with four_engines(llama_server, tiny_model) as engines:
        known = curve(engines, repeats=8, seconds=2.0)
        results = [
            poisson(engines, known, 0.6, blocks=10, seed=1),
            many_turns(engines, known, 0.6, blocks=10, seed=501),
        ]
    print("\n".join(result.words() for result in results))
    for result in results:
        assert result.unsteady < result.blocks / 2, result.words()
        assert all(abs(error) <= OFF for error in result.errors().values()), result.words()
