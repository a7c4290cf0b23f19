"""What oneDNN takes: single operators, and convolutions and products with what it computes behind them.

Source: ``relay.op.contrib.dnnl`` for the names of composites; oneDNN's post-ops.
"""

from __future__ import annotations

from collections.abc import Callable

from byoc.ir.expr import BaseFunc, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op, register_op_attr
from byoc.ir.types import TensorType, TupleType, Type
from byoc.relay.dataflow_pattern import DFPattern, is_constant, is_op, wildcard
from byoc.relay.expr import Call
from byoc.relay.op.contrib.register import register_pattern_table
from byoc.relay.transform import InferType, InlineCompilerFunctionsBoundTo
from byoc.relay.traverse import post_order

COMPILER = "dnnl"
_FLOATS = ("float32", "bfloat16", "float16")

# operator with a weight -> the name of its composites
_WEIGHTED = {
    "nn.conv1d": "conv1d", "nn.conv2d": "conv2d", "nn.conv3d": "conv3d", "nn.conv2d_transpose": "deconv2d",
    "nn.conv3d_transpose": "deconv3d", "nn.dense": "dense",
}
_SINGLE = (
    "nn.batch_norm", "nn.max_pool2d", "nn.avg_pool2d", "nn.global_avg_pool2d", "nn.max_pool3d", "nn.avg_pool3d", "abs",
    "clip", "exp", "log", "sqrt", "round", "nn.relu", "nn.leaky_relu", "tanh", "sigmoid", "nn.softmax", "add",
    "multiply", "nn.layer_norm", "nn.batch_matmul",
)
# what is worth a library's call by itself
_INTENSIVE = frozenset(
    (*_WEIGHTED, "nn.batch_matmul", "nn.layer_norm", "nn.batch_norm", "nn.global_avg_pool2d", "nn.softmax")
)


def is_float(ty: Type) -> bool:
    """True for a tensor of known rank with floating-point numbers that oneDNN computes with, and tuples of such."""
    if isinstance(ty, TupleType):
        return all(is_float(field) for field in ty.fields)
    return isinstance(ty, TensorType) and ty.dtype in _FLOATS


def _takes(call: Call) -> bool:
    return is_float(call.checked_type) and all(is_float(arg.checked_type) for arg in call.args)


for _name in (*_WEIGHTED, *_SINGLE):
    register_op_attr(_name, f"target.{COMPILER}", _takes)


def gelu_pattern(data: DFPattern) -> DFPattern:
    """``data * (1 + erf(data / sqrt(2))) * 0.5``, its factors in any order."""
    grown = is_op("erf")(is_op("divide")(data, is_constant()) | is_op("multiply")(data, is_constant()))
    factor = is_op("add")(grown, is_constant())
    multiply = is_op("multiply")
    return (
        multiply(multiply(data, factor), is_constant())
        | multiply(multiply(data, is_constant()), factor)
        | multiply(data, multiply(factor, is_constant()))
    )


def swish_pattern(data: DFPattern) -> DFPattern:
    """``data * sigmoid(data)``."""
    return is_op("multiply")(data, is_op("sigmoid")(data))


# what may stand behind a weighted operator, the longest first
_ENDINGS: dict[str, Callable[[DFPattern], DFPattern]] = {
    "gelu": gelu_pattern,
    "swish": swish_pattern,
    "relu": lambda data: is_op("nn.relu")(data),
    "tanh": lambda data: is_op("tanh")(data),
    "sigmoid": lambda data: is_op("sigmoid")(data),
    "clip": lambda data: is_op("clip")(data),
}


def make_pattern(op_name: str, with_bias: bool, ending: str | None, with_sum: bool = False) -> DFPattern:
    """A weighted operator, its bias (a constant), another tensor added to it, and an ending."""
    body: DFPattern = is_op(op_name)(wildcard(), wildcard())
    if with_bias:
        body = is_op("add")(body, is_constant()) | is_op("nn.bias_add")(body, is_constant())
    if with_sum:
        body = is_op("add")(body, wildcard())
    return _ENDINGS[ending](body) if ending else body


def check(call: Call) -> bool:
    """True where all tensors, from the weighted operator to the end, are numbers that oneDNN computes with."""
    pending: list[RelayExpr] = [call]
    while pending:
        node = pending.pop()
        if not isinstance(node, Call) or not isinstance(node.op, Op):
            continue
        if not _takes(node):
            return False
        if node.op.name not in _WEIGHTED:  # what leads to its data is no part of the composite
            pending.extend(node.args)
    return True


@register_pattern_table(COMPILER)
def pattern_table() -> list[tuple[str, DFPattern, Callable[[RelayExpr], bool]]]:
    """The composites of oneDNN, longer ones before those that they contain. Source: ``dnnl.pattern_table``."""
    rows = []
    for op_name, short in _WEIGHTED.items():
        for ending in (*_ENDINGS, None):
            for bias, other in ((True, True), (True, False), (False, False)):
                if (bias or ending) and not (other and ending not in ("relu", None)):
                    parts = [short, *(["bias"] * bias), *(["sum"] * other), *([ending] if ending else [])]
                    rows.append((f"{COMPILER}.{'_'.join(parts)}", make_pattern(op_name, bias, ending, other), check))
    return sorted(rows, key=lambda row: -row[0].count("_"))


def is_compute_intensive(func: BaseFunc) -> bool:
    """True where a function has an operator that is worth a library's call."""
    calls = (node.op for node in post_order(func) if isinstance(node, Call))
    return any(isinstance(op, Op) and op.name in _INTENSIVE for op in calls)


def prune_dnnl_subgraphs(mod: IRModule) -> IRModule:
    """*mod* with the regions of oneDNN that have no compute-intensive operator put back. Source: the same name."""
    small = [
        var
        for var, func in mod.functions.items()
        if func.attrs.get("Compiler") == COMPILER and not is_compute_intensive(func)  # type: ignore[attr-defined]
    ]
    return InferType()(InlineCompilerFunctionsBoundTo(small)(mod))
