"""Vendors' pattern tables, under the name that Relay's integrations import."""

from byoc.relay.op.contrib.register import get_pattern_table, register_pattern_table

__all__ = ["get_pattern_table", "register_pattern_table"]
