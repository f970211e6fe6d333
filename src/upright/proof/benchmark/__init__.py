"""An endpoint -> a Benchmark: what it carries, with what really happened in every cell."""
