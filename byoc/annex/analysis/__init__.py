"""Analyses that Relay has and no pass of a model's road asks."""
