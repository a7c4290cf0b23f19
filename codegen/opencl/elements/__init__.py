"""Schedules of stages whose elements are each computed from a few others, by how these lie in memory."""
