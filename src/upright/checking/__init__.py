"""Recipe -> what the engine's own parser says of it."""
