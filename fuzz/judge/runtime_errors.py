"""Where ONNX Runtime gives another value than ONNX specifies: how it is asked instead, or that it is no oracle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import NodeProto, helper

RECURRENT = frozenset(["RNN", "GRU", "LSTM"])
BOUNDED = frozenset([b"Sigmoid", b"Tanh", b"HardSigmoid", b"Softsign"])
# of three such numbers, as many as a step of a GRU multiplies, the product is a float32
MULTIPLIED = 1e12
FLUSHED = frozenset(["QuickGelu"])  # which read a sigmoid that is 0 for what it is not
COUNTED = "axes counted from the front"


def with_counted_axes(node: NodeProto, feeds: Mapping[str, np.ndarray]) -> tuple[NodeProto, dict[str, np.ndarray]]:
    """*node* and *feeds* with the axes of a reduction counted from the front.

    ONNX Runtime (1.30 does, 1.32 does not) leaves out the negative axes where the data has no element. A node of
    another operator is given back as it is.
    """
    found = dict(feeds)
    if not node.op_type.startswith("Reduce") or not node.input:
        return node, found
    rank = feeds[node.input[0]].ndim
    if not rank:
        return node, found
    changed = NodeProto()
    changed.CopyFrom(node)
    for attribute in changed.attribute:
        if attribute.name == "axes":
            attribute.ints[:] = [a % rank for a in attribute.ints]
    if len(node.input) > 1 and node.input[1]:
        changed.input[1] = COUNTED  # a name of its own: the data may be its own axes
        found[COUNTED] = feeds[node.input[1]] % rank
    return changed, {n: v for n, v in found.items() if n in changed.input}


def runtime_error(node: NodeProto, feeds: Mapping[str, np.ndarray], outputs: Sequence[np.ndarray]) -> str | None:
    """What ONNX Runtime does wrong with *node*, of which it made *outputs*, or None."""
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if node.op_type in RECURRENT and "clip" not in attributes:
        floats = [v for v in (*feeds.values(), *outputs) if v.dtype.kind == "f"]
        given = all(np.isfinite(v).all() for v in feeds.values())
        grows = not BOUNDED.issuperset(attributes.get("activations", BOUNDED))
        if grows and given and any(not (np.abs(v) < MULTIPLIED).all() for v in floats):
            return f"clips the sums of a {node.op_type} that overflow at the largest float32, where none is asked for"
    if node.op_type in FLUSHED:
        (given,), (found,) = feeds.values(), outputs
        if ((given < 0) & np.isfinite(given) & (found == 0)).any():
            return f"flushes {node.op_type} of some numbers below 0 to 0"
    return None
