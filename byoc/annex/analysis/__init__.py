"""Analyses that Relay has and no pass of the compile path uses."""
