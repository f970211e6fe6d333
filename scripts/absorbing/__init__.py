"""Two releases of an engine and our rows -> what changed, and which rows no longer hold."""
