"""FoldExplicitPadding: a padding before a convolution or a pool becomes the padding of that operator.

The padding must add what the operator itself would add: zeros before a convolution, the zero point before a quantized
one, the least value before a maximum, counted zeros before an average; and only along spatial axes.
Source: ``relay.transform.FoldExplicitPadding``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from byoc.ir.expr import RelayExpr
from byoc.ir.layout import Layout
from byoc.ir.op import Op
from byoc.ir.passes.pass_info import Law, Numbers
from byoc.ir.span import merge_spans
from byoc.ir.traits import OpKind, ProductForm
from byoc.ir.types import TensorType
from byoc.relay.analysis.operator_calls import calls
from byoc.relay.expr import Call, Constant
from byoc.relay.transform.base.call_rules import ByOperator, CallRule, call_rule_pass
from byoc.relay.transform.base.infer_type import FunctionPass

# (the operator's call, the value that is padded with, its dtype) -> whether the operator pads with it too
SameValue = Callable[[Call, float, str], bool]


def _pad_value(pad: Call) -> float | None:
    """What a constant padding adds; None for another mode or a value that is not known."""
    if pad.attrs["pad_mode"] != "constant":
        return None
    if len(pad.args) > 1:
        value = pad.args[1]
        return float(value.data.numpy()) if isinstance(value, Constant) and value.data.ndim == 0 else None
    return float(pad.attrs["pad_value"])


def _is_zero(call: Call, value: float, dtype: str) -> bool:
    return value == 0


def _is_zero_point(call: Call, value: float, dtype: str) -> bool:
    point = call.args[2]
    return isinstance(point, Constant) and point.data.ndim == 0 and float(point.data.numpy()) == value


def _is_least(call: Call, value: float, dtype: str) -> bool:
    if "float" in dtype:
        return value == -np.inf or (dtype != "bfloat16" and value == float(np.finfo(dtype).min))
    return value == np.iinfo(dtype).min


def _is_counted_zero(call: Call, value: float, dtype: str) -> bool:
    """An average counts zeros that were there as data: then its own must be counted, or there must be none of them."""
    attrs = call.attrs
    return value == 0 and (bool(attrs["count_include_pad"]) or not any(attrs["padding"]))


def _sides(pad: Call, layout: str) -> tuple[int, ...] | None:
    """The widths along the spatial axes, all before and then all after; None where another axis is padded."""
    widths = dict(zip(Layout(layout), pad.attrs["pad_width"], strict=True))
    spatial = [axis for axis in widths if axis in "DHW"]
    if any(any(width) for axis, width in widths.items() if axis not in spatial):
        return None
    if any(min(widths[axis]) < 0 for axis in spatial):
        return None
    return tuple(widths[axis][side] for side in (0, 1) for axis in spatial)


def _own_sides(padding: tuple[int, ...], count: int) -> tuple[int, ...]:
    """A padding attribute as one number a side."""
    if len(padding) == 1:
        return padding * count
    return padding * 2 if 2 * len(padding) == count else padding


def _rule(layout: str, same_value: SameValue) -> Callable[[Call, Call], RelayExpr]:
    def fold(before: Call, after: Call) -> RelayExpr:
        pad = after.args[0]
        if not calls(pad, "nn.pad"):
            return after
        ty = before.args[0].checked_type
        value = _pad_value(pad)
        if value is None or not isinstance(ty, TensorType) or not same_value(before, value, ty.dtype):
            return after
        sides = _sides(pad, str(after.attrs[layout]))
        if sides is None:
            return after
        own = _own_sides(after.attrs["padding"], len(sides))
        padding = tuple(a + b for a, b in zip(sides, own, strict=True))
        counted = {"count_include_pad": True} if same_value is _is_counted_zero else {}
        if _is_window_inside(after, padding):
            attrs = replace(after.attrs, padding=padding, **counted)
            args = [pad.args[0], *after.args[1:]]
            return Call(after.op, args, attrs, after.type_args, merge_spans([pad.span, before.span]))
        return after

    return fold


def _is_window_inside(call: Call, padding: tuple[int, ...]) -> bool:
    """True unless a pool's window could lie in its padding alone, or be dropped for it (``ceil_mode``)."""
    attrs = call.attrs
    if "pool_size" not in attrs.keys():
        return True
    if attrs["ceil_mode"]:
        return False
    sizes = [d * (k - 1) for k, d in zip(attrs["pool_size"], attrs["dilation"], strict=False)]
    sides = (padding[: len(sizes)], padding[len(sizes) :])
    return all(p <= size for side in sides for p, size in zip(side, sizes, strict=True))


def _rule_of(op: Op) -> CallRule | None:
    """The rule of an operator over windows that pads by an attribute; None for any other."""
    traits, names = op.traits, () if op.attrs_type is None else op.attrs_type.__dataclass_fields__
    if traits.product is ProductForm.CONVOLUTION:
        return _rule("data_layout", _is_zero_point if traits.quantized else _is_zero)
    if traits.kind is OpKind.WINDOW and not traits.quantized and "pool_size" in names and "padding" in names:
        return _rule("layout", _is_least if traits.chooses else _is_counted_zero)
    return None


RULES = ByOperator(_rule_of)


LAW = Law("zeros around an image before a window are the padding of the window", Numbers.ROUNDING)


def FoldExplicitPadding() -> FunctionPass:
    """The pass that folds paddings into the operators that follow them."""
    return call_rule_pass("FoldExplicitPadding", 0, RULES, LAW)
