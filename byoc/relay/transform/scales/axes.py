"""Scales along axes as expressions: when a tensor is one number per channel, and how it is shaped to meet another.

Source: ``src/relay/transforms/{fold_scale_axis.cc,pattern_utils.h}``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from byoc.errors import InternalError
from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.ir.layout import BijectiveLayout, Layout, is_convertible
from byoc.ir.op import Op
from byoc.ir.traits import ProductForm, Scaling
from byoc.ir.types import Any, TensorType, tensor_types
from byoc.relay.analysis.operator_calls import calls, traits_of
from byoc.relay.expr import Call, Constant
from byoc.relay.narrowing import operator_of
from byoc.relay.transform.base.call_rules import call_op

Axes = tuple[int, ...]
Rule = TypeVar("Rule")


@dataclass(frozen=True)
class Message:
    """That a value may be scaled along *axes*, by positive numbers only where a relu stands between."""

    axes: Axes
    require_positive: bool = False


@dataclass(frozen=True)
class RulesOfScaling(Generic[Rule]):
    """A rule for each way in which operators let a scale per channel pass; None where they do not."""

    activation: Rule | None = None  # a function of each element of one operand
    sum: Rule | None = None
    bias: Rule | None = None  # a sum with a vector along an axis
    product: Rule | None = None  # the operator scales
    convolution: Rule | None = None
    dense: Rule | None = None

    def of(self, expr: RelayExpr) -> Rule | None:
        """The rule of the operator that *expr* calls."""
        traits = traits_of(expr)
        if traits is None or traits.quantized or not isinstance(expr, Call):
            return None
        if traits.scaling is Scaling.PASSES:
            return self.activation if traits.is_pointwise and len(expr.args) == 1 else None
        if traits.scaling is Scaling.SUM:
            return self.bias if traits.names_axes else self.sum
        if calls(expr, "multiply"):  # a quotient's scale is another
            return self.product
        if traits.product is ProductForm.CONVOLUTION:
            return self.convolution
        return self.dense if traits.product is ProductForm.DENSE else None


def tensor(expr: RelayExpr) -> TensorType:
    """The type of a tensor expression that has been typed."""
    return tensor_types(expr.checked_type)[0]


def as_scale(whole: TensorType, part: RelayExpr, axes: Axes) -> RelayExpr | None:
    """*part* without its dimensions of 1, where beside *whole* it has one number for each place of *axes*; else None.

    A constant with an infinity or a NaN is none: weights that took it would add up what is infinite.
    Source: ``MatchBroadcastToLeftAxes``.
    """
    if isinstance(part, Constant) and not np.isfinite(part.data.numpy()).all():
        return None
    ty = tensor(part)
    base = whole.ndim - ty.ndim
    if base < 0 or any(a < base for a in axes):
        return None
    squeezed = [i - base for i in range(base, whole.ndim) if i not in axes]
    if any(ty.shape[a - base] != whole.shape[a] for a in axes) or any(ty.shape[i] != 1 for i in squeezed):
        return None
    return call_op("squeeze", [part], part.span, axis=tuple(squeezed)) if squeezed else part


def along_axes(scale: RelayExpr, shape: Sequence[object], axes: Axes) -> RelayExpr:
    """*scale*, one dimension for each of *axes*, with the dimensions of 1 that let it broadcast against *shape*.

    Source: ``ReshapeOrExpandToMatchAxis``.
    """
    if len(axes) > 1:
        newshape = tuple(d if k in axes else 1 for k, d in enumerate(shape))
        return call_op("reshape", [scale], scale.span, newshape=newshape)
    after = len(shape) - axes[0] - 1
    return call_op("expand_dims", [scale], scale.span, axis=1, num_newaxis=after) if after else scale


def is_known(shape: Sequence[object], axes: Axes) -> bool:
    """True when :func:`along_axes` can be made: several axes need known sizes."""
    return len(axes) == 1 or not any(isinstance(shape[a], Any) for a in axes)


def is_all_positive(expr: RelayExpr) -> bool:
    """True for a constant of positive numbers, also in another shape. Source: ``IsAllPositiveConstant``."""
    while isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.traits.only_moves and len(expr.args) == 1:
        expr = expr.args[0]
    return isinstance(expr, Constant) and expr.data.dtype != "string" and bool(np.all(expr.data.numpy() > 0))


@dataclass(frozen=True)
class ConvAxes:
    """Where a convolution has its channels: in its data, its result, and for either of them in its weight."""

    data: Axes
    result: Axes
    input_weight: Axes
    output_weight: Axes

    @staticmethod
    def of(call: Call) -> ConvAxes | None:
        """The axes of a full or depthwise convolution with no layout blocked or all; None for others."""
        attrs: Attrs = call.attrs
        data, kernel = Layout(str(attrs["data_layout"])), Layout(str(attrs["kernel_layout"]))
        result = Layout(str(attrs["out_layout"] or attrs["data_layout"]))
        depthwise = _is_depthwise(call, kernel)
        if attrs["groups"] != 1 and not depthwise:
            return None
        blocks = ["o" in kernel, "i" in kernel, "c" in data, "c" in result]
        if len(set(blocks)) != 1:
            return None
        out = _places(kernel, "O")
        return ConvAxes(_places(data, "C"), _places(result, "C"), out if depthwise else _places(kernel, "I"), out)


def axes_of_convolution(call: Call) -> ConvAxes:
    """The axes of a convolution that takes scales. Raises InternalError for one that does not."""
    axes = ConvAxes.of(call)
    if axes is None:
        raise InternalError(f"{operator_of(call).name} with blocked or grouped channels takes no scale")
    return axes


def _places(layout: Layout, letter: str) -> Axes:
    found = (layout.index_of(letter), layout.index_of(letter.lower()))
    return tuple(place for place in found if place >= 0)


def _is_depthwise(call: Call, kernel: Layout) -> bool:
    """True for one input channel to each group and one result of it."""
    canonical = Layout("OI" + "DHW"[3 - (len(kernel.primal) - 2) :])
    if not is_convertible(kernel, canonical):
        return False
    shape = BijectiveLayout(kernel, canonical).forward_shape(tensor(call.args[1]).shape)
    return shape[0] == call.attrs["groups"] and shape[1] == 1
