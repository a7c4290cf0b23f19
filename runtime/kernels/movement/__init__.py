"""Numpy kernels that move, make and pick elements."""
