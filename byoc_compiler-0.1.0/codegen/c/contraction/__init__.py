"""Sums of products over register tiles: convolutions, matrix products, and all that is shaped like them."""
