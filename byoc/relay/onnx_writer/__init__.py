"""From the graph language to ONNX: a region as a model for libraries that read it. Source: ``tvm.contrib.target.onnx``.

``to_onnx(function)`` writes what it has rules for; ``unwritable(call)`` says beforehand what it has none for, so that a
backend refuses it in a constraint.
"""

from byoc.relay.onnx_writer.graph import UnwritableError
from byoc.relay.onnx_writer.rules import unwritable
from byoc.relay.onnx_writer.write import to_onnx

__all__ = ["UnwritableError", "to_onnx", "unwritable"]
