"""What an engine may know of itself, one file a facet: the types that each engine's folder fills in."""
