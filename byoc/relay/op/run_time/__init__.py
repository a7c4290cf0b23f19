"""Operators whose axes, bounds, lengths and scales are tensors of the run.

One numpy kernel looks at them, and says in a sentence what is wrong with them.
"""
