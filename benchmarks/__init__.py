"""Benchmarks, run from the root of the repository: ``python -m benchmarks.cpu``. Figures stand in ``README.md``."""
