"""How the weights of linear operators take up a scale of their output or input channels.

One row a form of product: the scale that follows it goes into its weights along the output channels, the scale before
it along the input channels. Groups and depthwise convolutions (``OIHW``, ``HWIO``, ``HWOI``, …) are one case of a
weight seen as groups; blocked layouts (``OIHW16o``) are left alone. Source: ``relay.transform.FoldScaleAxis``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from byoc.ir.expr import RelayExpr
from byoc.ir.traits import ProductForm
from byoc.ir.types import TensorType
from byoc.relay.analysis.operator_calls import traits_of
from byoc.relay.expr import Call

# (call, weight, one number per channel) -> the scaled weight, or None where the layout is not understood
ScaleWeight = Callable[[Call, np.ndarray, np.ndarray], np.ndarray | None]


@dataclass(frozen=True)
class ScaleRule:
    """The rules of one form of product: the axes of channels in its data and result, and how its weights are scaled."""

    in_axis: Callable[[Call], int | None]
    out_axis: Callable[[Call], int | None]
    scale_output: ScaleWeight
    scale_input: ScaleWeight


def _axis_of(letter: str, layout: str) -> int | None:
    """The position of *letter* in a layout without blocks; None for a blocked one."""
    return layout.index(letter) if layout.isalpha() and layout.isupper() and letter in layout else None


def _text(call: Call, name: str) -> str:
    return str(call.attrs[name]) if name in call.attrs.keys() else ""


def _data_axis(call: Call) -> int | None:
    return _axis_of("C", _text(call, "data_layout"))


def _result_axis(call: Call) -> int | None:
    return _axis_of("C", _text(call, "out_layout") or _text(call, "data_layout"))


def _scaled(weight: np.ndarray, channels: np.ndarray, axis: int, other: int, groups: int) -> np.ndarray | None:
    """*weight* times one number per channel, or None where the numbers do not fit.

    The channels run along (group, *axis*), where the groups are the slow part of *other*.
    """
    front = np.moveaxis(weight, (other, axis), (0, 1))
    outer, inner = front.shape[:2]
    tail = (1,) * (weight.ndim - 2)
    if outer % groups or channels.size != groups * inner:
        return None
    per_outer = np.repeat(channels.reshape(groups, inner), outer // groups, axis=0)
    scaled = front * per_outer.reshape(outer, inner, *tail)
    return np.asarray(np.moveaxis(scaled, (0, 1), (other, axis)), order="C").astype(weight.dtype)


def _scale_conv(letter: str, transposed: bool) -> ScaleWeight:
    """Along ``O`` or ``I`` of a convolution's weight; a group's share of the other axis is its slow part."""

    def scale(call: Call, weight: np.ndarray, channels: np.ndarray) -> np.ndarray | None:
        layout, groups = _text(call, "kernel_layout"), call.attrs.get_int("groups")
        axis, other = _axis_of(letter, layout), _axis_of("I" if letter == "O" else "O", layout)
        if axis is None or other is None:
            return None
        # a depthwise convolution's weight is [channel, multiplier, ...]
        depthwise = not transposed and groups > 1 and groups == weight.shape[axis if letter == "O" else other]
        if letter == "I" and depthwise:
            return _scaled(weight, channels, other, axis, 1)
        # any convolution's is [O, I / groups, ...], a transposed one's [I, O / groups, ...]
        if (letter == "O") == transposed:
            return _scaled(weight, channels, axis, other, groups)
        if weight.shape[axis] == channels.size:
            return _scaled(weight, channels, axis, other, 1)
        return _scaled(weight, channels, other, axis, groups) if depthwise else None

    return scale


def _scale_dense(axis: int) -> ScaleWeight:
    """Along one axis of ``nn.dense``'s weight ``[units, in]``."""
    return lambda call, weight, channels: _scaled(weight, channels, axis, 1 - axis, 1)


def _last_axis(call: Call) -> int | None:
    ty = call.checked_type
    return ty.ndim - 1 if isinstance(ty, TensorType) else None


_CONV = ScaleRule(_data_axis, _result_axis, _scale_conv("O", False), _scale_conv("I", False))
_CONV_TRANSPOSE = ScaleRule(_data_axis, _result_axis, _scale_conv("O", True), _scale_conv("I", True))

SCALE_RULES: dict[ProductForm | None, ScaleRule] = {
    ProductForm.CONVOLUTION: _CONV,
    ProductForm.TRANSPOSED_CONVOLUTION: _CONV_TRANSPOSE,
    ProductForm.DENSE: ScaleRule(_last_axis, _last_axis, _scale_dense(0), _scale_dense(1)),
}


def scale_rule(expr: RelayExpr) -> ScaleRule | None:
    """The rule of the product that *expr* is; None for anything else, and where weights are quantized."""
    traits = traits_of(expr)
    return None if traits is None or traits.quantized else SCALE_RULES.get(traits.product)
