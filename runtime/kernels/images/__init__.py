"""Numpy kernels of images and of boxes on them."""
