"""Box + Model + Goal -> plans, recipes, sizes: pure, but for probing."""
