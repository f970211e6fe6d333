"""An endpoint -> a Benchmark: what it carries, with what really happened in every cell."""

from upright.benchmarking.bench import bench as bench
from upright.benchmarking.bench import kept as kept
