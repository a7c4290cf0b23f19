"""Rewrites that give oneDNN whole operators: layer norm out of its parts, a reshape moved behind a dense block.

Source: ``relay.op.contrib.dnnl``.
"""

from __future__ import annotations

from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.types import TensorType
from byoc.relay.dataflow_pattern import DFPattern, DFPatternCallback, is_constant, is_op, rewrite, wildcard
from byoc.relay.dataflow_pattern.rewriting import NodeMap
from byoc.relay.expr import Constant
from byoc.relay.narrowing import as_call, attrs_of, tensor_type
from byoc.relay.op import add, divide, erf, multiply, nn, reshape
from byoc.relay.op.numeric.reduce import ReduceAttrs


class LayerNormRewrite(DFPatternCallback):
    """A mean, a variance and what is made of them, over one axis, is ``nn.layer_norm``.

    Source: ``dnnl.LayerNormRewrite``.
    """

    def __init__(self) -> None:
        super().__init__(require_type=True)
        self.data, self.gamma, self.beta, self.epsilon, self.two = (
            wildcard(),
            wildcard(),
            wildcard(),
            is_constant(),
            is_constant(),
        )
        self.mean = is_op("mean")(self.data)
        distance = is_op("subtract")(self.data, self.mean)
        wide = distance | is_op("cast")(distance)
        self.power = is_op("power")(wide, self.two)
        self.squares = is_op("mean")(self.power | is_op("multiply")(wide, wide))
        self.variance = self.squares | is_op("variance")(self.data, self.mean)
        shifted = is_op("add")(self.variance, self.epsilon)
        normal: DFPattern = is_op("divide")(distance, is_op("sqrt")(shifted))
        normal = normal | is_op("multiply")(distance, is_op("rsqrt")(shifted))
        self.pattern = is_op("add")(is_op("multiply")(normal, self.gamma), self.beta)

    def callback(self, pre: RelayExpr, post: RelayExpr, node_map: NodeMap) -> RelayExpr:
        """The layer norm, where both means are over one and the same axis and gamma and beta are along it."""
        data, gamma, beta = (node_map[part][0] for part in (self.data, self.gamma, self.beta))
        axes = {_reduced_axis(node_map[part][0]) for part in (self.mean, self.variance)}
        axis = axes.pop()
        if axes or axis is None or not self._is_square(node_map):
            return post
        size = tensor_type(data).shape[axis]
        if any(tensor_type(v).shape != (size,) for v in (gamma, beta)):
            return post
        return nn.layer_norm(data, gamma, beta, axis, epsilon=_number(node_map[self.epsilon][0]))

    def _is_square(self, node_map: NodeMap) -> bool:
        return self.power not in node_map or _number(node_map[self.two][0]) == 2


def _reduced_axis(expr: RelayExpr) -> int | None:
    """The axis that a reduction keeps as 1; None unless it is a single one, and the last."""
    call = as_call(expr)
    attrs, rank = attrs_of(call, ReduceAttrs), tensor_type(call.args[0]).ndim
    axes = attrs.axis if isinstance(attrs.axis, tuple) else (attrs.axis,)
    if not attrs.keepdims or attrs.exclude or len(axes) != 1 or axes[0] is None:
        return None
    axis = int(axes[0]) % rank
    return axis if axis == rank - 1 else None


def _number(constant: RelayExpr) -> float:
    assert isinstance(constant, Constant)
    return float(constant.data.numpy().reshape(-1)[0])


class DenseReshapeBiasGeluRewrite(DFPatternCallback):
    """dense, reshape, bias, gelu becomes dense, bias, gelu, reshape, so that oneDNN computes it in one.

    The bias may be on either side of the addition, a constant or a parameter.

    Source: ``dnnl.DenseReshapeBiasGeluRewrite``.
    """

    def __init__(self, has_gelu: bool = True):
        super().__init__(require_type=True)
        self.has_gelu = has_gelu
        self.dense = is_op("nn.dense")(wildcard(), wildcard())
        self.bias = wildcard()
        self.reshaped = is_op("reshape")(self.dense)
        biased = is_op("add")(self.reshaped, self.bias)
        self.divisor, self.one, self.half = is_constant(), is_constant(), is_constant()
        grown = is_op("add")(is_op("erf")(is_op("divide")(biased, self.divisor)), self.one)
        product = is_op("multiply")
        gelu = product(product(biased, grown), self.half) | product(product(biased, self.half), grown)
        self.pattern = (gelu | product(biased, product(grown, self.half))) if has_gelu else biased

    def callback(self, pre: RelayExpr, post: RelayExpr, node_map: NodeMap) -> RelayExpr:
        """The reshape behind the rest, where it keeps the last axis and the bias is along it."""
        dense, bias, reshaped = (node_map[part][0] for part in (self.dense, self.bias, self.reshaped))
        shape, target = tensor_type(dense).shape, reshaped.checked_type
        assert isinstance(target, TensorType)
        if target.shape[-1:] != shape[-1:] or tensor_type(bias).shape != shape[-1:]:
            return post
        body: RelayExpr = add(dense, bias)
        if self.has_gelu:
            divisor, one, half = (node_map[part][0] for part in (self.divisor, self.one, self.half))
            body = multiply(multiply(body, add(erf(divide(body, divisor)), one)), half)
        return reshape(body, as_call(reshaped).attrs.newshape)


def _rewritten(mod: IRModule, *callbacks: DFPatternCallback) -> IRModule:
    made = mod.shallow_copy()
    made["main"] = rewrite(list(callbacks), mod["main"])
    return made


def rewrite_layer_norm(mod: IRModule) -> IRModule:
    """*mod* with the parts of layer norms in main as ``nn.layer_norm``. Source: ``dnnl.rewrite_layer_norm``."""
    return _rewritten(mod, LayerNormRewrite())


def rewrite_dense_bias_gelu_reshape_last(mod: IRModule) -> IRModule:
    """*mod* with reshapes between a dense and its bias (and gelu) moved behind them. Source: the same name."""
    return _rewritten(mod, DenseReshapeBiasGeluRewrite(), DenseReshapeBiasGeluRewrite(has_gelu=False))
