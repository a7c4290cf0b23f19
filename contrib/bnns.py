"""The graph's side of an integration of Apple's BNNS: its composites and the partition.

Importing this module registers the pattern table of ``bnns`` and its ``target.bnns`` attributes; a vendor's own file of
that name takes its place. The regions go to whoever is registered as ``relay.ext.bnns``. Source: the same
module.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from byoc.contrib.endings import biased, gelu_pattern
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op, register_op_attr
from byoc.ir.passes.transform import Sequential
from byoc.ir.types import TensorType, Type
from byoc.relay.bind import bind_params_by_name
from byoc.relay.dataflow_pattern import DFPattern, is_constant, is_op, wildcard
from byoc.relay.expr import Call, Constant
from byoc.relay.narrowing import as_function, operator_of
from byoc.relay.op.contrib.register import register_pattern_table
from byoc.relay.transform import (
    AnnotateTarget,
    DynamicToStatic,
    FoldConstant,
    FoldScaleAxis,
    InferType,
    MergeComposite,
    PartitionGraph,
)

COMPILER = "bnns"
_ACTIVATIONS = {"relu": "nn.relu", "sigmoid": "sigmoid"}


def _floats(call: Call) -> bool:
    types = [call.checked_type, *(arg.checked_type for arg in call.args)]
    return all(isinstance(ty, TensorType) and ty.dtype == "float32" for ty in types)


def conv2d_supported(call: Call) -> bool:
    """A convolution of float32 in NCHW, with constant weights of four axes."""
    attrs, weight = call.attrs, call.args[1]
    layouts = (attrs.data_layout, attrs.kernel_layout, attrs.out_layout or "NCHW")
    return layouts == ("NCHW", "OIHW", "NCHW") and isinstance(weight, Constant) and _floats(call)


def dense_supported(call: Call) -> bool:
    """A product of float32 with constant weights."""
    return isinstance(call.args[1], Constant) and _floats(call)


register_op_attr("nn.conv2d", f"target.{COMPILER}", conv2d_supported)
register_op_attr("nn.dense", f"target.{COMPILER}", dense_supported)
register_op_attr("nn.batch_matmul", f"target.{COMPILER}", _floats)


def _conv2d_pattern(with_bias: bool, activation: str | None) -> DFPattern:
    body: DFPattern = is_op("nn.conv2d")(wildcard(), is_constant())
    if with_bias:
        body = biased(body, is_constant())
    return is_op(_ACTIVATIONS[activation])(body) if activation else body


def _dense_pattern(with_gelu: bool) -> DFPattern:
    body = biased(is_op("nn.dense")(wildcard(), is_constant()), is_constant())
    return gelu_pattern(body) if with_gelu else body


def _chain(call: RelayExpr, product: str) -> list[Call]:
    """The calls from a match down to its *product*."""
    pending, seen = [call], []
    while pending:
        node = pending.pop()
        if isinstance(node, Call) and isinstance(node.op, Op):
            seen.append(node)
            pending.extend(node.args if node.op.name != product else ())
    return seen


def check_conv2d(call: Call) -> bool:
    """Whether the convolution is supported, and its bias has one number for each channel, along axis 1."""
    for node in _chain(call, "nn.conv2d"):
        name = operator_of(node).name
        if name == "nn.conv2d" and not conv2d_supported(node):
            return False
        if name == "nn.bias_add" and node.attrs.axis != 1:
            return False
        if name == "add" and not any(_is_bias(arg.checked_type, node.checked_type) for arg in node.args):
            return False
    return True


def _is_bias(ty: Type, out: Type) -> bool:
    """True for the shapes (C, 1, 1) and (1, C, 1, 1), where C are the channels of *out*."""
    if not isinstance(ty, TensorType) or not isinstance(out, TensorType) or not ty.is_static:
        return False
    channels = out.shape[1]
    return ty.shape in ((channels, 1, 1), (1, channels, 1, 1)) and math.prod(ty.concrete_shape) == channels


def check_dense(call: Call) -> bool:
    """Whether the product is supported."""
    return all(dense_supported(n) for n in _chain(call, "nn.dense") if operator_of(n).name == "nn.dense")


@register_pattern_table(COMPILER)
def pattern_table() -> list[tuple[str, DFPattern, Callable[[Call], bool]]]:
    """The composites of BNNS, longer ones before those that they contain. Source: ``bnns.pattern_table``."""
    rows = [
        (
            f"{COMPILER}.{'_'.join(['conv2d', *['bias'] * bias, *([act] if act else [])])}",
            _conv2d_pattern(bias, act),
            check_conv2d,
        )
        for act in (*_ACTIVATIONS, None)
        for bias in (True, False)
        if bias or act
    ]
    dense = [(f"{COMPILER}.dense_bias{'_gelu' * gelu}", _dense_pattern(gelu), check_dense) for gelu in (True, False)]
    return [*rows, *dense]


def partition_for_bnns(mod: IRModule, params: Mapping[str, object] | None = None) -> IRModule:
    """*mod*, with *params* bound, cut for BNNS. Source: ``bnns.partition_for_bnns``."""
    if params:
        mod = mod.shallow_copy()
        mod["main"] = bind_params_by_name(as_function(mod["main"]), params)
    steps = [
        InferType(),
        FoldConstant(),
        FoldScaleAxis(),
        DynamicToStatic(),
        FoldConstant(),
        InferType(),
        MergeComposite(pattern_table()),
        AnnotateTarget(COMPILER),
        PartitionGraph(),
    ]
    return Sequential(steps)(mod)
