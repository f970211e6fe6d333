"""Text -> a person's terminal: the one door, what is said beside an answer, lines that fit, a screen that moves."""
