"""Operators over whole axes: reductions, scans, orders, sums of products, transforms."""
