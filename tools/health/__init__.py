"""Measures of the repository's health: each a module that prints numbers, and with ``--gate`` holds them."""
