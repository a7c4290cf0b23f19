"""Quantised models: scales and zero points, products of integers, and operators between quantised tensors."""
