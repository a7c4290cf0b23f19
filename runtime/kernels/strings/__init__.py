"""Numpy kernels on strings, and RE2's regular expressions. A tensor of strings is an array of ``str`` objects."""
