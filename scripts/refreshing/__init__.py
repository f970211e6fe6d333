"""What scripts/refresh is made of."""
