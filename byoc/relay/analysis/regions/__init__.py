"""Annotated regions: what is in them, how they depend on each other, whether they are convex."""
