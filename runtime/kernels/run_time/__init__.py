"""Numpy kernels of what is known only when a model runs: axes, bounds, lengths and scales that inputs hold."""
