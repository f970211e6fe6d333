"""One file per rung: `NAME` and `climb`."""
