"""Rows: stages that share a row, what they keep of it, and how their blocks are divided."""
