"""Where ONNX's reference evaluator gives another value than ONNX specifies: it is no oracle for these nodes.

Each rule says what it does, and holds for inputs alone, never for what byoc computed. Nodes that ONNX Runtime computes
are not asked about.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import NodeProto, helper

FLOAT32_INSIDE = frozenset(["Erf", "Gelu"])
PADS_BY_NAN = frozenset(["AveragePool", "LpPool"])


def reference_error(node: NodeProto, feeds: Mapping[str, np.ndarray]) -> str | None:
    """What the reference does wrong with *node* on *feeds*, or None."""
    values = list(feeds.values())
    if node.op_type in FLOAT32_INSIDE and any(str(v.dtype) == "float64" for v in values):
        return f"computes {node.op_type} of float64 in float32"
    if node.op_type in PADS_BY_NAN and any(v.dtype.kind == "f" and np.isnan(v).any() for v in values):
        return "marks padding by NaN and leaves out those of the data"
    if node.op_type == "GlobalMaxPool" and values and values[0].ndim > 4:
        return "leaves dimensions of an image that has more than two"
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if node.op_type == "AveragePool" and attributes.get("ceil_mode") and attributes.get("count_include_pad"):
        return "counts what only ceil_mode reaches, beyond the padding, as padding"
    pads_itself = attributes.get("auto_pad", b"NOTSET").startswith(b"SAME")
    if node.op_type == "Conv" and pads_itself and max(attributes.get("dilations", [1])) > 1:
        return "forgets dilations where it chooses the padding (ONNX Runtime refuses such a node)"
    return None
