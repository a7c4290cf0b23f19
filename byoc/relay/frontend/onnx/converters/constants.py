"""Constants and tensors made from a few numbers. Source: ONNX Constant-1 to 24, ConstantOfShape-9, Range-11."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.dims import matched
from byoc.relay.frontend.onnx.dtypes import dtype_of
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import converter

_FORMS: dict[str, Callable[[OnnxNode], np.ndarray]] = {
    "value": lambda node: node.services.tensor(node.attrs.tensor("value")),
    "value_int": lambda node: np.array(node.attrs.int("value_int"), "int64"),
    "value_ints": lambda node: np.array(node.attrs.ints("value_ints"), "int64"),
    "value_float": lambda node: np.array(node.attrs.float("value_float"), "float32"),
    "value_floats": lambda node: np.array(node.attrs.floats("value_floats"), "float32"),
    "value_string": lambda node: np.array(node.attrs.string("value_string"), object),
    "value_strings": lambda node: np.array(node.attrs.strings("value_strings"), object),
}


@converter("Constant")
def _constant(node: OnnxNode) -> RelayExpr:
    forms = [name for name in node.attrs.names() if name in _FORMS]
    if len(forms) != 1:
        raise node.error(
            f"needs exactly one of the attributes {', '.join(_FORMS)}, got {', '.join(node.attrs.names()) or 'none'}"
        )
    return constant(_FORMS[forms[0]](node))


@converter("ConstantOfShape")
def _constant_of_shape(node: OnnxNode) -> RelayExpr:
    fill = node.services.tensor(node.attrs.tensor("value")) if "value" in node.attrs else np.zeros(1, "float32")
    if fill.size != 1:
        raise node.error(f"the value must have one element, got {fill.size}")
    value = constant(fill.reshape(()))
    shape = node.value(0)
    if shape is None:
        filled, dims = relay.full(value, node[0], node.dtype(value)), node.services.dims(node[0])
        return filled if dims is None else matched(node, filled, dims)
    sizes = [int(v) for v in shape.reshape(-1)]
    if min(sizes, default=0) < 0:
        raise node.error(f"a shape has no negative dimension, got {sizes}")
    return relay.full(value, sizes, node.dtype(value))


MAX_ELEMENTS = 1 << 24  # of a tensor that is made when importing; a longer one is a damaged model


@converter("Range")
def _range(node: OnnxNode) -> RelayExpr:
    start, limit, delta = (_number(node, i) for i in range(3))
    if start is not None and limit is not None and delta is not None:
        count = (limit - start) / delta
        if count > MAX_ELEMENTS:
            raise node.error(f"{count:.0f} elements are more than the {MAX_ELEMENTS} that can be made when importing")
    first, last, step = (node.fold(relay.reshape(node[i], [])) if node.rank(node[i]) else node[i] for i in range(3))
    numbers, dims = relay.arange(first, last, step, node.dtype(node[0])), node.services.dims(node[1])
    counted = start == 0 and delta == 1
    return matched(node, numbers, dims) if counted and dims is not None else numbers


def _number(node: OnnxNode, index: int) -> float | None:
    """Input *index* where it is known; functions of ONNX's own (AffineGrid) have a list of one instead of a scalar."""
    value = node.value(index)
    return None if value is None else float(value.reshape(()))


@converter("EyeLike")
def _eye_like(node: OnnxNode) -> RelayExpr:
    rows, columns = node.static_dims(node[0], "EyeLike")
    if rows * columns > MAX_ELEMENTS:
        raise node.error(f"{rows} x {columns} elements are more than can be made when importing")
    dtype = node.dtype(node[0])
    if "dtype" in node.attrs:
        dtype = dtype_of(node.attrs.int("dtype"), f"the attribute dtype of node {node.name}")
    return constant(np.eye(rows, columns, node.attrs.int("k", 0)).astype(dtype))
