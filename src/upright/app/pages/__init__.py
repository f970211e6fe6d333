"""Pages for people, and progress bars. Nothing is decided here."""
