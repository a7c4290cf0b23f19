"""Kernels of rows on a device: softmax, norms and argmax, and attention."""
