"""One file per rung, each with its `RUNG`."""
