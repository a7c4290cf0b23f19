"""The JSON sub-module's engine: graphs in Relay's JSON layout over a table of kernels."""

from byoc.runtime.json.table import KernelTable, get_table

__all__ = ["KernelTable", "get_table"]
