"""Counts over the operators of a program: how often each is called, multiplications, the longest chain of layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op, get_op
from byoc.ir.traits import ProductForm
from byoc.ir.types import TensorType
from byoc.relay.analysis.operator_calls import traits_of
from byoc.relay.expr import Call
from byoc.relay.traverse import children, post_order


def list_op_freqs(mod: IRModule) -> dict[str, int]:
    """How many calls of each operator the functions of *mod* hold. Source: ``relay.analysis.list_op_freqs``."""
    counts: dict[str, int] = {}
    for func in mod.functions.values():
        for node in post_order(func):
            if isinstance(node, Call) and isinstance(node.op, Op):
                counts[node.op.name] = counts.get(node.op.name, 0) + 1
    return counts


# multiply-accumulates -----------------------------------------------------------------------------------------------


def _shape(expr: RelayExpr) -> tuple[int, ...]:
    ty = expr.checked_type
    assert isinstance(ty, TensorType)
    return ty.concrete_shape


def _convolution(call: Call) -> int:
    """Elements of the result times channels of a group times size of the window."""
    layout, data = str(call.attrs["data_layout"]), _shape(call.args[0])
    letters = [c for c in layout if c.isalpha()]
    channels = math.prod(size for letter, size in zip(letters, data, strict=True) if letter in "Cc")
    window = call.attrs["kernel_size"] or _window(call)
    return math.prod(_shape(call)) * channels // int(call.attrs["groups"]) * math.prod(window)


def _window(call: Call) -> Sequence[int]:
    layout = str(call.attrs["kernel_layout"])
    return [size for letter, size in zip(layout, _shape(call.args[1]), strict=True) if letter in "DHW"]


def _inner_product(axis: int) -> Callable[[Call], int]:
    """Elements of the result times the size of *axis* of the first input, which is summed over."""
    return lambda call: math.prod(_shape(call)) * _shape(call.args[0])[axis]


_MACS: dict[ProductForm | None, Callable[[Call], int]] = {
    ProductForm.CONVOLUTION: _convolution,
    ProductForm.TRANSPOSED_CONVOLUTION: _convolution,
    ProductForm.DENSE: _inner_product(-1),
    ProductForm.MATRICES: lambda call: (
        math.prod(_shape(call)) * _shape(call.args[0])[-2 if getattr(call.attrs, "transpose_a", False) else -1]
    ),
}


def get_total_mac_number(expr: RelayExpr) -> int:
    """Multiply-accumulates of all convolutions and products of matrices in *expr*, which must be typed.

    Source: ``relay.analysis.get_total_mac_number``.
    """
    calls = (node for node in post_order(expr) if isinstance(node, Call))
    products = ((c, traits) for c in calls if (traits := traits_of(c)) is not None and not traits.quantized)
    return sum(_MACS[traits.product](call) for call, traits in products if traits.product in _MACS)


# layers -------------------------------------------------------------------------------------------------------------


def count_layers(expr: RelayExpr | IRModule, valid_ops: Sequence[str]) -> int:
    """The most calls of *valid_ops* that stand on one path to the result: branches side by side count once.

    Source: ``relay.analysis.count_layers``.
    """
    root = expr["main"] if isinstance(expr, IRModule) else expr
    counted = {get_op(name) for name in valid_ops}
    depth: dict[RelayExpr, int] = {}
    for node in post_order(root):
        below = max((depth[child] for child in children(node)), default=0)
        depth[node] = below + (isinstance(node, Call) and node.op in counted)
    return depth[root]
