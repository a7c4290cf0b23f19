"""Measures of the sources that a machine can take, each a module that anyone can run."""
