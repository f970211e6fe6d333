"""The order of things: the line, a fleet, the first hour on a box, a claim replayed."""
