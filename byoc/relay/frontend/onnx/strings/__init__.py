"""Strings: texts, tokens and n-grams."""
