"""The base classes of Relay's nodes. Source: ``tvm.relay.base``."""

from __future__ import annotations

from byoc.compat.tvm_modules.runtime import Object as Node
from byoc.compat.tvm_modules.runtime import Object as RelayNode
from byoc.ir.span import SequentialSpan, SourceName, Span
from byoc.relay.text import astext
from byoc.relay.text.printer import pretty_print

__all__ = ["Node", "RelayNode", "SequentialSpan", "SourceName", "Span", "astext", "pretty_print"]
