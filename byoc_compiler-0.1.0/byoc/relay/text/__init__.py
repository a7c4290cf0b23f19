"""Relay's text format, both ways: :func:`astext` prints, :func:`parse` reads."""

from byoc.relay.text.parser import fromtext, parse, parse_expr, parse_untyped
from byoc.relay.text.printer import astext

__all__ = ["astext", "fromtext", "parse", "parse_expr", "parse_untyped"]
