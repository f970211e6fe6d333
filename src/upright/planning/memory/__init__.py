"""How many bytes: weights, caches, overheads, as each engine lays them out."""
