"""A result -> the page that a person reads, or the bar that they watch while it is made. Nothing is decided here."""
