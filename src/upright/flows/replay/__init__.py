"""A published claim, run again on this box and compared."""
