"""What scripts/ask-engine asks."""
