"""Numpy kernels of neural networks' layers."""
