"""Quantized operators and their passes. Source: ``relay.qnn``."""

from byoc.relay.qnn import op

__all__ = ["op"]
