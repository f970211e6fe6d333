"""Users + how one box serves -> how many boxes, by simulating them."""

from upright.planning.sizing.capacity import ServiceDemand as ServiceDemand
from upright.planning.sizing.capacity import ServiceObjective as ServiceObjective
from upright.planning.sizing.capacity import size as size
from upright.planning.sizing.setting import SimulationSetting as SimulationSetting
from upright.planning.sizing.simulation import simulate as simulate
