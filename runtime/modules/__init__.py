"""The tree of modules: the root of their classes, the one that owns the constants, one that could not be loaded."""
