"""The graph that runs: its parts, checks, memory and overlap, and what all its executors share."""
