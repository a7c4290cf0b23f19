"""Lengths of sequences: from 0 to the size of their axis, looked at when importing where known, else by every run.

ONNX Runtime refuses others in ReverseSequence-10 and in the ``sequence_lens`` of LSTM, GRU and RNN.
"""

from __future__ import annotations

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.frontend.onnx.node import OnnxNode


def lengths_along(node: OnnxNode, index: int, data: RelayExpr, axis: int) -> RelayExpr:
    """Input *index* of *node*, lengths along *axis* of *data*.

    Raises ImportModelError where it is left out, and for a known length that is outside.
    """
    lengths, known, size = node[index], node.value(index), node.shape(data)[axis]
    if known is None or not isinstance(size, int):
        return relay.check_lengths(lengths, data, axis, f"node {node.name} ({node.op_type})")
    wrong = known[(known < 0) | (known > size)]
    if wrong.size:
        raise node.error(f"a length of {wrong[0]} is outside an axis of {size}; give lengths from 0 to {size}")
    return lengths
