"""Users + how one box serves -> how many boxes, by simulating them."""

from upright.sizing.capacity import ServiceDemand as ServiceDemand
from upright.sizing.capacity import ServicePromise as ServicePromise
from upright.sizing.capacity import size as size
from upright.sizing.setting import SimulationSetting as SimulationSetting
from upright.sizing.simulation import simulate as simulate
