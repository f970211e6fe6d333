"""Is it right, how fast, does the kernel fit: the ladder, benchmarks, kernels."""
