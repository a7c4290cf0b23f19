"""Vectors: what is stored as lanes, and in which expressions."""
