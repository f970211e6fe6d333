"""Bundles that people sent -> measurement rows, constants of their kind of machine, and the plans that they move."""
