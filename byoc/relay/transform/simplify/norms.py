"""Rules of SimplifyExpr that gather a layer norm that is written out.

``d * rsqrt(mean(d * d) + e)`` with ``d = x - mean(x)`` over the last axis is a layer norm without scale and shift, or
``d / sqrt(...)`` the same; a constant vector that then multiplies or is added is its scale or its shift. Source: the
function of LayerNormalization in the ONNX standard, as exporters of older opsets write it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from byoc.ir.expr import RelayExpr
from byoc.ir.passes.pass_info import Numbers
from byoc.relay.analysis.operator_calls import calls
from byoc.relay.expr import Call, Constant, constant
from byoc.relay.narrowing import tensor_type
from byoc.relay.transform.simplify.rules import Rule, is_all, law, merged, spans_of


def _mean_of(expr: RelayExpr) -> RelayExpr | None:
    """What *expr* is the mean of over its last axis, which stays as 1; None for anything else."""
    from byoc.relay.op.numeric.reduce import reduced_axes

    if not calls(expr, "mean"):
        return None
    data, attrs = expr.args[0], expr.attrs
    ty = tensor_type(data)
    last = attrs["keepdims"] and not attrs["exclude"] and list(reduced_axes(attrs, ty.ndim)) == [ty.ndim - 1]
    return data if last and ty.dtype == "float32" else None


def _number(expr: RelayExpr) -> float | None:
    """The value of a constant of one element."""
    if not isinstance(expr, Constant) or expr.data.numpy().size != 1:
        return None
    return float(expr.data.numpy().reshape(()))


def _spread_of(expr: RelayExpr) -> tuple[RelayExpr, float] | None:
    """``mean(d * d) + e`` as (d, e)."""
    if not calls(expr, "add"):
        return None
    square, epsilon = _mean_of(expr.args[0]), _number(expr.args[1])
    if square is None or epsilon is None:
        return None
    if calls(square, "multiply") and square.args[0] is square.args[1]:
        return square.args[0], epsilon
    if calls(square, "power") and is_all(square.args[1], 2):
        return square.args[0], epsilon
    return None


def _layer_norm(call: Call, centred: RelayExpr, spread: RelayExpr, *sources: RelayExpr) -> RelayExpr | None:
    found = _spread_of(spread)
    if found is None or found[0] is not centred or not calls(centred, "subtract"):
        return None
    data, mean = centred.args
    if _mean_of(mean) is not data:
        return None
    size = tensor_type(data).shape[-1]
    if not isinstance(size, int):
        return None
    vectors = [constant(np.full(int(size), value, "float32")) for value in (1, 0)]
    attrs = {"axis": -1, "epsilon": found[1], "center": False, "scale": False}
    return merged("nn.layer_norm", [data, *vectors], attrs, mean, centred, spread, *sources, call)


@law("(x - mean) * rsqrt(variance + e) is a layer norm", Numbers.ROUNDING)
def product_norm(call: Call) -> RelayExpr | None:
    """``d * rsqrt(mean(d * d) + e)`` is a layer norm."""
    for centred, root in (call.args, call.args[::-1]):
        if calls(root, "rsqrt"):
            found = _layer_norm(call, centred, root.args[0], root)
            if found is not None:
                return found
    return None


@law("(x - mean) / sqrt(variance + e) is a layer norm", Numbers.ROUNDING)
def quotient_norm(call: Call) -> RelayExpr | None:
    """``d / sqrt(mean(d * d) + e)`` is a layer norm."""
    centred, root = call.args
    return _layer_norm(call, centred, root.args[0], root) if calls(root, "sqrt") else None


def _along_last(norm: Call, vector: Constant) -> bool:
    """True for a constant with a number for each place along the last axis of a norm over this."""
    ty, values = tensor_type(norm), vector.data.numpy()
    last = int(norm.attrs["axis"]) % ty.ndim == ty.ndim - 1
    return last and values.ndim > 0 and values.size == values.shape[-1] == ty.shape[-1]


def _takes(flag: str, place: int) -> Rule:
    """The rule by which a norm takes up a vector as its scale or its shift."""

    @law(f"a norm takes up a vector as its {flag}", Numbers.ROUNDING)
    def rule(call: Call) -> RelayExpr | None:
        for norm, vector in (call.args, call.args[::-1]):
            if not calls(norm, "nn.layer_norm") or not isinstance(vector, Constant):
                continue
            if not _along_last(norm, vector) or norm.attrs["center"] or norm.attrs[flag]:
                continue
            args = list(norm.args)
            args[place] = constant(vector.data.numpy().reshape(-1), span=vector.span)
            attrs = replace(norm.attrs, **{flag: True})
            return Call(norm.op, args, attrs, span=spans_of(norm, call))
        return None

    return rule


NORMS: dict[str, tuple[Rule, ...]] = {
    "multiply": (product_norm, _takes("scale", 1)),
    "divide": (quotient_norm,),
    "add": (_takes("center", 2),),
}
