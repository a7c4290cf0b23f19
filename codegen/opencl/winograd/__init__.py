"""Winograd's method on a GPU: two transforms around products in tiles."""
