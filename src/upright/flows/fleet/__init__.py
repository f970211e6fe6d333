"""fleet.yaml -> several boxes behind one endpoint: planned, started, watched, rolled, ended."""

from upright.flows.fleet.reading import read_fleet as read_fleet
