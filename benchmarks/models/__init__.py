"""The models of the benchmarks, and benchmarks of one model."""
