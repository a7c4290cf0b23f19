"""Convolutions: forms, transposes, geometry, and the shapes that their gradients and libraries use."""
