"""A configuration or a catalogue row -> what an engine builds: layers by kind, weights by class, by arithmetic."""
