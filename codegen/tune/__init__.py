"""Tuning before inference: candidates for a kernel's schedule, their measurement, and the database of what won.

A schedule that has several candidates has a search space (``kernel.choice.SearchSpace``), and chooses from it itself,
by its cost model, where nobody knows better.
"""

NO_TUNING = "none"  # the level at which nothing is tried
TUNE = "tune"  # the option by which a backend is given who tunes
