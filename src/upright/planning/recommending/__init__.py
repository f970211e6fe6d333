"""Box + Goal -> Recommendation: every model of the catalogue on this box, by published quality and what holds."""

from upright.planning.recommending.recommendation import recommend

__all__ = ["recommend"]
