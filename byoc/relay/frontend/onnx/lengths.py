"""Lengths of sequences: from 0 to the size of their axis, looked at when importing where known, else by every run.

ONNX Runtime refuses others in ReverseSequence-10 and in the ``sequence_lens`` of LSTM, GRU and RNN.
"""

from __future__ import annotations

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.frontend.onnx.node import OnnxNode


def lengths_along(node: OnnxNode, index: int, data: RelayExpr, axis: int) -> RelayExpr | None:
    """Input *index* of *node*, lengths along *axis* of *data*; None where it is left out.

    Raises ImportModelError for a known length that is outside.
    """
    lengths, known, size = node.optional(index), node.value(index), node.shape(data)[axis]
    if lengths is None:
        return None
    if known is not None:
        wrong = known[(known < 0) | (known > (size if isinstance(size, int) else known))]
        if wrong.size:
            room = f"an axis of {size}; give lengths from 0 to {size}" if isinstance(size, int) else "its axis"
            raise node.error(f"a length of {wrong[0]} is outside {room}")
        if isinstance(size, int):
            return lengths
    return relay.check_lengths(lengths, data, axis, f"node {node.name} ({node.op_type})")
