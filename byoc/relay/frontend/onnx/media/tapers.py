"""Windows that weigh the ends of a frame down: HannWindow-17, HammingWindow-17, BlackmanWindow-17.

``output[n] = a0 - a1 cos(t n) + a2 cos(2 t n)`` in float32, where ``t`` is a turn divided by the size of a period, as
in ONNX's function bodies. These take a negative size for 0; it is an error here, as in ONNX Runtime.
"""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.dtypes import dtype_of
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import converter
from byoc.relay.frontend.onnx.run_time.slices import number_of_run

TERMS = {
    "HannWindow": (0.5, 0.5, 0.0),
    "HammingWindow": (25 / 46, 1 - 25 / 46, 0.0),
    "BlackmanWindow": (0.42, 0.5, 0.08),
}


@converter("HannWindow", "HammingWindow", "BlackmanWindow")
def _taper(node: OnnxNode) -> RelayExpr:
    known = node.value(0)
    if known is not None and int(known.reshape(())) < 0:
        raise node.error(f"a window has 0 elements or more, got a size of {int(known.reshape(()))}")
    size = node[0] if known is not None else number_of_run(node, 0, "the size", 0)
    count = relay.cast(relay.reshape(size, []), "float32")
    period = count if node.attrs.flag("periodic", True) else relay.subtract(count, _f32(1))
    step = relay.divide(_f32(2 * math.pi), period)
    angle = relay.multiply(relay.arange(_f32(0), count, _f32(1), dtype="float32"), step)
    first, second, third = TERMS[node.op_type]
    found = relay.subtract(_f32(first), relay.multiply(_f32(second), relay.cos(angle)))
    if third:
        found = relay.add(found, relay.multiply(_f32(third), relay.cos(relay.multiply(angle, _f32(2)))))
    number = node.attrs.int("output_datatype", TensorProto.FLOAT)
    return relay.cast(found, dtype_of(number, f"the attribute output_datatype of node {node.name}"))


def _f32(value: float) -> RelayExpr:
    return constant(np.float32(value), "float32")
