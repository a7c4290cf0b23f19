"""Shared libraries from the C code generator, called through cffi."""
