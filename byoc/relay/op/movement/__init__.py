"""Operators that move, make or pick elements."""
