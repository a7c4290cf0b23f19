"""Sums of products on a device: matrix products and convolutions in tiles, their operands in local memory."""
