"""What oneDNN takes: single operators, and convolutions and products with what it computes behind them.

Source: ``relay.op.contrib.dnnl`` for the names of composites; oneDNN's post-ops.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from byoc.contrib.endings import gelu_pattern, mish_pattern, swish_pattern
from byoc.ir.expr import BaseFunc
from byoc.ir.module import IRModule
from byoc.ir.op import Op, get_op, register_op_attr
from byoc.ir.types import TensorType, Type, tensor_types
from byoc.relay.dataflow_pattern import DFPattern, is_constant, is_expr, is_op, wildcard
from byoc.relay.expr import Call, Function, const
from byoc.relay.narrowing import operator_of
from byoc.relay.op.contrib.register import PatternTable, register_pattern_table
from byoc.relay.transform import InferType, InlineCompilerFunctionsBoundTo
from byoc.relay.traverse import post_order

COMPILER = "dnnl"

# operator with a weight -> the name of its composites
_WEIGHTED = {
    "nn.conv1d": "conv1d",
    "nn.conv2d": "conv2d",
    "nn.conv3d": "conv3d",
    "nn.conv2d_transpose": "deconv2d",
    "nn.conv3d_transpose": "deconv3d",
    "nn.dense": "dense",
}
_SINGLE = (
    "nn.batch_norm",
    "nn.max_pool2d",
    "nn.avg_pool2d",
    "nn.global_avg_pool2d",
    "nn.max_pool3d",
    "nn.avg_pool3d",
    "abs",
    "clip",
    "exp",
    "log",
    "sqrt",
    "round",
    "nn.relu",
    "nn.leaky_relu",
    "tanh",
    "sigmoid",
    "nn.softmax",
    "add",
    "multiply",
    "nn.layer_norm",
    "nn.batch_matmul",
)
# quantized product -> the plain one that it is without zero points
QUANTIZED_PRODUCTS = {"qnn.conv2d": "nn.conv2d", "qnn.dense": "nn.dense"}
_INTENSIVE = "TDnnlIntensive"  # the attribute of operators, beside products, that are worth a library's call alone


def _takes(call: Call) -> bool:
    """oneDNN has every dtype but int64, and no pool whose last window hangs over (``ceil_mode``)."""
    if any(tensor.dtype == "int64" for arg in call.args for tensor in tensor_types(arg.checked_type)):
        return False
    return not getattr(call.attrs, "ceil_mode", False)


for _name in (*_WEIGHTED, *_SINGLE):
    register_op_attr(_name, f"target.{COMPILER}", _takes)
for _name in ("nn.layer_norm", "nn.global_avg_pool2d"):
    register_op_attr(_name, _INTENSIVE, True)


def _single(op_name: str) -> Callable[[DFPattern], DFPattern]:
    return lambda data: is_op(op_name)(data)


# what may stand behind a weighted operator, by the names that composites carry
_ENDINGS: dict[str, Callable[[DFPattern], DFPattern]] = {
    "relu": _single("nn.relu"),
    "tanh": _single("tanh"),
    "sigmoid": _single("sigmoid"),
    "clip": _single("clip"),
    "gelu": gelu_pattern,
    "swish": swish_pattern,
    "mish": mish_pattern,
}
# weighted operator -> the endings behind a sum
_SUMS: dict[str, tuple[str | None, ...]] = {"nn.conv2d": ("relu", None), "nn.dense": (None,)}


def make_pattern(op_name: str, with_bias: bool, ending: str | None, with_sum: bool = False) -> DFPattern:
    """A weighted operator, an addition to it (its bias), another addition (a sum), and an ending."""
    body: DFPattern = is_op(op_name)(wildcard(), wildcard())
    if with_bias:
        body = is_op("add")(body, wildcard())
    if with_sum:
        body = is_op("add")(body, wildcard())
    return _ENDINGS[ending](body) if ending else body


def make_qnn_pattern(op_name: str) -> DFPattern:
    """A quantized product without zero points, in the strict sequence of float32 that oneDNN computes behind it.

    ``((cast(product) + bias) * scale``, clip, ``* scale + constant * cast(other) + zero``, cast; what has a default
    of 0 or 1 may be missing. The last cast rounds and saturates. Source: ``dnnl.make_qnn_conv2d_pattern``.
    """
    add, multiply, zeros = is_op("add"), is_op("multiply"), (is_expr(const(0)), is_expr(const(0)))
    product = is_op(op_name)(wildcard(), is_constant(), *zeros, is_constant(), is_constant())
    body: DFPattern = is_op("cast")(product)
    body = add(body, is_constant()) | body
    body = is_op("clip")(multiply(body, is_constant()))
    body = multiply(body, is_constant()) | body
    body = add(body, multiply(is_constant(), is_op("cast")(wildcard()))) | body
    body = add(body, is_constant()) | body
    return is_op("cast")(body)


def is_sum(call: Call) -> bool:
    """True where the second addition of a match is of equal shapes and the first is a bias: one number a channel."""
    total = call if operator_of(call).name == "add" else call.args[0]
    if not isinstance(total, Call):
        return False
    for biased, other in (total.args, reversed(total.args)):
        if isinstance(biased, Call) and biased.op == get_op("add") and biased.checked_type == other.checked_type:
            product = next((a for a in biased.args if isinstance(a, Call) and getattr(a.op, "name", "") in _SUMS), None)
            rest = [a for a in biased.args if a is not product]
            if product is not None and all(_size(a.checked_type) == _channels(product) for a in rest):
                return True
    return False


def _size(ty: Type) -> int | None:
    return math.prod(int(d) for d in ty.shape) if isinstance(ty, TensorType) and ty.is_static else None


def _channels(product: Call) -> int:
    """The output channels of a convolution with groups in O, or the units of a dense."""
    attrs, weight = product.attrs, product.args[1].checked_type
    assert isinstance(weight, TensorType)
    layout = getattr(attrs, "kernel_layout", "OI")
    return math.prod(int(d) for d, letter in zip(weight.shape, layout, strict=False) if letter in "GO")


@register_pattern_table(COMPILER)
def pattern_table() -> PatternTable:
    """The composites of oneDNN, longer ones before those that they contain. Source: ``dnnl.pattern_table``.

    What is added to a product is any tensor: oneDNN takes an addition behind a product whatever its operand.
    """
    rows: list[tuple[str, DFPattern] | tuple[str, DFPattern, Callable[[Call], bool]]] = [
        (f"{COMPILER}.{op_name}", make_qnn_pattern(op_name)) for op_name in QUANTIZED_PRODUCTS
    ]
    for op_name, endings in _SUMS.items():
        for ending in endings:
            name = _name_of(op_name, "bias", "sum", ending)
            rows.append((name, make_pattern(op_name, True, ending, with_sum=True), is_sum))
    for with_bias in (True, False):
        for ending in (*_ENDINGS, None):
            if with_bias or ending:
                for op_name in _WEIGHTED:
                    name = _name_of(op_name, "bias" if with_bias else None, ending)
                    rows.append((name, make_pattern(op_name, with_bias, ending)))
    return rows


def _name_of(op_name: str, *parts: str | None) -> str:
    return f"{COMPILER}.{'_'.join([_WEIGHTED[op_name], *filter(None, parts)])}"


def is_compute_intensive(func: BaseFunc) -> bool:
    """True where a function has an operator that is worth a library's call."""
    called = (node.op for node in post_order(func) if isinstance(node, Call))
    return any(isinstance(op, Op) and _is_intensive(op) for op in called)


def _is_intensive(op: Op) -> bool:
    is_taken_product = op.traits.product is not None and op.has_attr(f"target.{COMPILER}")
    return is_taken_product or op.has_attr(_INTENSIVE)


def prune_dnnl_subgraphs(mod: IRModule) -> IRModule:
    """*mod* with the regions of oneDNN that have no compute-intensive operator put back. Source: the same name.

    A module of main and one region stays as it is: there is nothing that the small region would stand between.
    """
    if len(mod.functions) <= 2:
        return mod
    small = [
        var
        for var, func in mod.functions.items()
        if isinstance(func, Function) and func.attrs.get("Compiler") == COMPILER and not is_compute_intensive(func)
    ]
    return InferType()(InlineCompilerFunctionsBoundTo(small)(mod))
