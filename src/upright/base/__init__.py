"""What everything stands on: units, errors, bounds, foreign text, the terminal, the host."""
