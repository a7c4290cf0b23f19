"""Constant scales per channel beside a convolution or product go into its constant weights, by arithmetic at once.

Backward: ``conv(x, w) * s`` is ``conv(x, w * s)``, also through a bias (which is scaled too) and, where s is positive,
through relu; so a batch norm after a convolution leaves a bias only. Forward: ``conv(x * s, w)`` is ``conv(x, s * w)``.
Only what has no other reader is changed: a convolution whose result is used twice, or is itself an output, keeps its
weights. Groups, transposed convolutions and scales in a row are taken too, which Relay's FoldScaleAxis leaves; and
nothing is made that must be computed at run time. Requires: SimplifyInference and FoldConstant.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import REWRITES, Law, Numbers
from byoc.ir.passes.transform import PassContext, PassInfo
from byoc.ir.span import merge_spans
from byoc.ir.types import TensorType
from byoc.relay.analysis.operator_calls import calls
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Constant, Function, constant
from byoc.relay.narrowing import as_call, as_constant, as_function, channel_values, tensor_type
from byoc.relay.transform.base.fusion_graph import fusion_children
from byoc.relay.transform.base.infer_type import FunctionPass
from byoc.relay.transform.scales.axes import RulesOfScaling
from byoc.relay.transform.scales.rules import scale_rule
from byoc.relay.traverse import post_order, rewrite

_ACTIVATION = RulesOfScaling(activation=True)
_BIAS = RulesOfScaling(sum=True, bias=True)
_MAX_WAY = 8  # steps between a scale and the weights that take it, so that long chains take linear time


def _scale_of(call: RelayExpr) -> tuple[RelayExpr, Constant] | None:
    """``x * s`` as (x, s) for a constant s."""
    if not calls(call, "multiply"):
        return None
    left, right = call.args
    if isinstance(right, Constant) and left.checked_type == call.checked_type:
        return left, right
    return (right, left) if isinstance(left, Constant) and right.checked_type == call.checked_type else None


class _Folder:
    """Rewrites a typed function bottom up; ``uses`` counts the readers of each node before and after."""

    def __init__(self, root: RelayExpr, mod: IRModule | None, forward: bool, backward: bool):
        self.mod, self.forward, self.backward = mod, forward, backward
        nodes = post_order(root, fusion_children)
        self.uses: Counter[RelayExpr] = Counter(c for node in nodes for c in fusion_children(node))

    def folded(self, before: RelayExpr, new: RelayExpr) -> RelayExpr:
        """What stands in place of *new*, the copy of *before* over folded sub-expressions."""
        if isinstance(new, Function):
            return new
        infer_expr(new, self.mod)
        folded = self._backward(new) if self.backward else None
        if folded is None and self.forward:
            folded = self._forward(new)
        if folded is not None:
            infer_expr(folded, self.mod)
            new = folded
        self.uses[new] = self.uses[before]
        return new

    def _backward(self, node: RelayExpr) -> RelayExpr | None:
        found = _scale_of(node)
        return None if found is None else self._push(found[0], found[1], node)

    def _push(self, data: RelayExpr, scale: Constant, scaled: RelayExpr) -> RelayExpr | None:
        """*data* with *scale* in the weights at its root, or None where the path to it is not free."""
        way: list[Call] = []
        while self.uses[data] == 1 and len(way) < _MAX_WAY and self._passes(data):
            way.append(as_call(data))
            data = way[-1].args[0]
        rule, ty = scale_rule(data), data.checked_type
        if self.uses[data] != 1 or rule is None or not isinstance(data, Call):
            return None
        axis, old = rule.out_axis(data), data.args[1]
        if axis is None or not isinstance(ty, TensorType) or not isinstance(old, Constant):
            return None
        channels = channel_values(scale, axis, ty)
        if channels is None or not all(self._takes_scale(c, axis, channels) for c in way):
            return None
        weight = rule.scale_output(data, old.data.numpy(), channels)
        if weight is None or not np.isfinite(weight).all():
            return None
        new: RelayExpr = self._with_weight(data, data.args[0], weight, scale, scaled)
        for call in reversed(way):
            self.uses[new] = 1
            new = self._scaled_step(call, new, channels, axis, ty, scaled)
        return new

    @staticmethod
    def _passes(call: RelayExpr) -> bool:
        """True for a relu and its like, and for ``x + b`` with a constant bias that does not change the shape."""
        if _ACTIVATION.of(call):
            return True
        if not isinstance(call, Call) or not _BIAS.of(call) or not isinstance(call.args[1], Constant):
            return False
        return call.args[0].checked_type == call.checked_type

    @staticmethod
    def _takes_scale(call: Call, axis: int, channels: np.ndarray) -> bool:
        """True where the scale may pass: relu needs positive numbers, a bias the same channel axis and no overflow."""
        if _ACTIVATION.of(call):
            return bool(np.all(channels > 0))
        bias = as_constant(call.args[1]).data.numpy()
        if not np.isfinite(np.abs(bias).max(initial=0) * np.abs(channels).max(initial=0)):
            return False
        return not calls(call, "nn.bias_add") or call.attrs.get_int("axis") % tensor_type(call).ndim == axis

    @staticmethod
    def _scaled_step(
        call: Call, data: RelayExpr, channels: np.ndarray, axis: int, ty: TensorType, scaled: RelayExpr
    ) -> Call:
        """A relu or bias on the path over scaled *data*."""
        args = [data]
        for bias in call.args[1:]:
            values = as_constant(bias).data.numpy()
            across = 0 if calls(call, "nn.bias_add") else ty.ndim - axis - 1
            factor = channels.reshape(channels.size, *(1,) * across)
            args.append(constant((values * factor).astype(values.dtype), span=merge_spans([bias.span, scaled.span])))
        return Call(call.op, args, call.attrs, span=merge_spans([call.span, scaled.span]))

    def _forward(self, node: RelayExpr) -> RelayExpr | None:
        rule = scale_rule(node)
        if rule is None or not isinstance(node, Call) or not isinstance(node.args[1], Constant):
            return None
        product = node.args[0]
        found = _scale_of(product) if self.uses[product] == 1 else None
        axis = rule.in_axis(node)
        if found is None or axis is None or not isinstance(product.checked_type, TensorType):
            return None
        channels = channel_values(found[1], axis % product.checked_type.ndim, product.checked_type)
        if channels is None:
            return None
        weight = rule.scale_input(node, node.args[1].data.numpy(), channels)
        if weight is None or not np.isfinite(weight).all():
            return None
        return self._with_weight(node, found[0], weight, found[1], product)

    def _with_weight(self, call: Call, data: RelayExpr, weight: np.ndarray, scale: Constant, scaled: RelayExpr) -> Call:
        """*call* on *data* with another weight; all that went into it gives its span."""
        span = merge_spans([call.args[1].span, scale.span])
        new = Call(call.op, [data, constant(weight, span=span), *call.args[2:]], call.attrs, call.type_args)
        new.span = merge_spans([call.span, scaled.span])
        return new


def fold_scales(root: RelayExpr, mod: IRModule | None = None, forward: bool = True, backward: bool = True) -> RelayExpr:
    """*root* with scales per channel taken up by constant weights."""
    infer_expr(root, mod)
    return rewrite(root, _Folder(root, mod, forward, backward).folded, fusion_children)


def FoldConstantScales(opt_level: int = 3) -> FunctionPass:
    """The pass that folds constant scales into constant weights; it goes by the name of FoldScaleAxis."""

    def fold(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return as_function(fold_scales(func, mod))

    return FunctionPass(
        fold,
        PassInfo(
            "FoldScaleAxis",
            opt_level,
            ("InferType",),
            ends=REWRITES,
            law=Law("a scale of a product's result is one of its weights: s * (W x) = (s * W) x", Numbers.ROUNDING),
        ),
    )
