"""Output to a terminal: escaped streams, messages on stderr, wrapped lines, a live screen."""
