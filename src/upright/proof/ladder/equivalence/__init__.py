"""How far apart two deployments of one model are: KL divergence, top-1 agreement, flips."""
