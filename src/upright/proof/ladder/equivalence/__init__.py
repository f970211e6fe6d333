"""Two ways to serve one model -> how far apart they are: KL divergence, top-1 agreement, flips."""
