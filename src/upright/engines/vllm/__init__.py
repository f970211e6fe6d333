"""vLLM: a rank a GPU, the cache in what is left of a share."""
