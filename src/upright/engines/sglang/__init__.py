"""SGLang: a rank a GPU, weights and cache in one share."""
