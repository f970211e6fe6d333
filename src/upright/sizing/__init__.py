"""Users + how one box serves -> how many boxes, by simulating them."""

from upright.sizing.capacity import Demand as Demand
from upright.sizing.capacity import Promise as Promise
from upright.sizing.capacity import size as size
from upright.sizing.setting import Setting as Setting
from upright.sizing.simulation import simulate as simulate
