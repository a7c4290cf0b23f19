"""Operators without a tensor expression as functions of C: a file for each family, by the operators' names."""
