"""Host -> Box: what a machine is, as its own tools tell it."""

from upright.planning.probing.lookup import box_of
from upright.planning.probing.probe_rounds import probe

__all__ = ["box_of", "probe"]
