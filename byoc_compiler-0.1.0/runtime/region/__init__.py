"""Regions at run time: what runs a backend's share, what stands in for it, and what is recorded when that is needed."""
