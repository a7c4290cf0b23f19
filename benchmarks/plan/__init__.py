"""How good plans are, and how long the graph layer takes: ``python -m benchmarks.plan``."""
