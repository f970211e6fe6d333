"""Checks of the protocols that clients speak, one file for each, and the table of clients that they add up to."""
