"""Rows: stages that share a row, what they keep of it, and their blocks of rows and of keys."""
