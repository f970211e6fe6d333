"""Several boxes behind one endpoint: planned, started, watched, rolled, stopped."""

from upright.flows.fleet.fleet_file import read_fleet as read_fleet
