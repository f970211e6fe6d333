"""A published claim -> the same run on this box, and how it compares."""
