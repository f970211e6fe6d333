"""What one step away from home costs a predicted speed."""

from __future__ import annotations

from scripts.fitting.speeds import beyond
from upright.planning.speed.spread import SpeedMiss


def test_a_step_adds_what_a_source_is_worse_by_than_itself_at_home():
    near = [SpeedMiss(0.02, "steady"), SpeedMiss(1.0, "wild")]
    assert beyond([SpeedMiss(0.02, "steady")], near) == 1.0
    assert beyond([SpeedMiss(1.0, "wild")], near) == 1.0
    assert beyond([SpeedMiss(0.5, "steady")], near) > 1.5
    # One that was never at home is compared with all that were.
    assert beyond([SpeedMiss(0.5, "stranger")], near) == 1.0
