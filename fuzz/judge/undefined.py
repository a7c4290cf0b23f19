"""What ONNX leaves undefined: a rule for an operator looks at a node and its values and says why there is no answer.

Models in which a rule applies are not drawn, and the reducer does not go there. Each rule says what ONNX (or C, which
every implementation ends in) does not define; nothing that is defined may stand here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes  # noqa: F401
import numpy as np
from onnx import NodeProto, TensorProto, helper

Rule = Callable[[NodeProto, "list[np.ndarray | None]"], str | None]
RULES: dict[str, list[Rule]] = {}


def rule(*operators: str) -> Callable[[Rule], Rule]:
    """Register a function of a node and its inputs (None where one is left out) for *operators*."""

    def register(function: Rule) -> Rule:
        for operator in operators:
            RULES.setdefault(operator, []).append(function)
        return function

    return register


def undefined(node: NodeProto, values: Mapping[str, np.ndarray]) -> str | None:
    """Why ONNX does not say what *node* gives for *values*, or None when it does."""
    inputs = [values.get(name) for name in node.input]
    for one in RULES.get(node.op_type, ()):
        reason = one(node, inputs)
        if reason:
            return reason
    return None


def attribute(node: NodeProto, name: str, default: object) -> Any:
    """The value of an attribute of *node*, or *default*."""
    found = [helper.get_attribute_value(a) for a in node.attribute if a.name == name]
    return found[0] if found else default


def has_nan(value: np.ndarray | None) -> bool:
    """True when a floating-point array holds a NaN."""
    return value is not None and value.dtype.kind not in "iub" and bool(np.isnan(value.astype("float64")).any())


def integral(value: np.ndarray | None) -> bool:
    """True for arrays of integers."""
    return value is not None and value.dtype.kind in "iu"


@rule("Div", "Mod")
def division_by_zero(node: NodeProto, inputs: list[np.ndarray | None]) -> str | None:
    a, b = inputs
    if not integral(b):
        return None
    if (b == 0).any():
        return "an integer is divided by zero"
    least = np.iinfo(a.dtype).min
    return "the least integer is divided by -1" if least < 0 and (a == least).any() and (b == -1).any() else None


@rule("Pow")
def integer_power(node: NodeProto, inputs: list[np.ndarray | None]) -> str | None:
    a, b = inputs
    if not integral(a) or a.size == 0 or b.size == 0:
        return None
    with np.errstate(all="ignore"):
        exact = np.power(a.astype("float64"), b.astype("float64"))
    if not np.isfinite(exact).all() or (np.abs(exact) >= 2.0**53).any():
        return "an integer power is not exact in float64"
    limits = np.iinfo(a.dtype)
    inside = (exact >= limits.min) & (exact <= limits.max)
    return None if inside.all() else "an integer power overflows its type"


@rule("Cast", "CastLike")
def cast_out_of_range(node: NodeProto, inputs: list[np.ndarray | None]) -> str | None:
    value = inputs[0]
    to = inputs[1].dtype if node.op_type == "CastLike" else None
    if to is None:
        number = int(attribute(node, "to", TensorProto.FLOAT))
        to = helper.tensor_dtype_to_np_dtype(number)
    if value is None or value.dtype.kind in "iub" or to.kind not in "iu":
        return None
    limits, wide = np.iinfo(to), np.trunc(value.astype("float64"))
    fits = np.isfinite(wide) & (wide >= float(limits.min)) & (wide < float(limits.max) + 1)
    return None if fits.all() else "a float that its integer type cannot hold is cast"


@rule("BitShift")
def shift_too_far(node: NodeProto, inputs: list[np.ndarray | None]) -> str | None:
    a, b = inputs
    return "an integer is shifted by its width or more" if (b >= 8 * a.dtype.itemsize).any() else None


@rule("ReduceMean")
def mean_of_a_sum_that_overflows(node: NodeProto, inputs: list[np.ndarray | None]) -> str | None:
    """ONNX Runtime and the reference sum in the type of the data; the mean itself has its place there."""
    data = inputs[0]
    if data is None or not integral(data):
        return None
    limits, most = np.iinfo(data.dtype), np.abs(data.astype("float64")).sum()
    return None if most <= limits.max else "a mean whose sum its integers may not hold"


@rule("TopK", "ArgMax", "ArgMin", "Hardmax", "MaxPool", "GlobalMaxPool", "QuantizeLinear", "DynamicQuantizeLinear")
def order_of_nan(node: NodeProto, inputs: list[np.ndarray | None]) -> str | None:
    return "a NaN is compared, and ONNX does not say how" if any(map(has_nan, inputs)) else None


@rule("ArgMax", "ArgMin", "ReduceMax", "ReduceMin", "TopK", "Hardmax", "DynamicQuantizeLinear")
def reduction_of_nothing(node: NodeProto, inputs: list[np.ndarray | None]) -> str | None:
    return "the largest of no element" if inputs[0] is not None and inputs[0].size == 0 else None


@rule("Resize")
def weight_of_nothing(node: NodeProto, inputs: list[np.ndarray | None]) -> str | None:
    """ONNX Runtime multiplies one neighbour of a place on the grid by 0, its reference another, and 0 * NaN is NaN."""
    data, mode = inputs[0], attribute(node, "mode", b"nearest")
    if data is None or data.dtype.kind in "iub" or mode == b"nearest" or np.isfinite(data.astype("float64")).all():
        return None
    return "a NaN or an infinity is interpolated, and ONNX does not say whether one with the weight 0 counts"


@rule("MaxPool", "AveragePool", "LpPool", "GlobalMaxPool", "GlobalAveragePool", "Conv", "ConvTranspose", "GlobalLpPool")
def image_of_nothing(node: NodeProto, inputs: list[np.ndarray | None]) -> str | None:
    data = inputs[0]
    return "an image without a pixel" if data is not None and 0 in data.shape[1:] else None


@rule("DynamicQuantizeLinear")
def range_without_a_scale(node: NodeProto, inputs: list[np.ndarray | None]) -> str | None:
    """``x / y_scale`` is NaN, which no integer is: infinity over infinity, or 0 over a scale that became 0."""
    data = inputs[0]
    if data is None or data.size == 0:
        return None
    with np.errstate(all="ignore"):
        low, high = min(data.min(), np.float32(0)), max(data.max(), np.float32(0))
        scale = (high - low) / np.float32(255)
    if not (np.isfinite(low) and np.isfinite(high)):
        return "an infinity is divided by a scale that is infinite"
    return "a scale so small that it is 0" if scale == 0 and high != low else None


@rule("MaxPool", "AveragePool", "LpPool")
def window_beyond_the_image(node: NodeProto, inputs: list[np.ndarray | None]) -> str | None:
    """By ONNX's formula there are none; ONNX Runtime gives none, one or an error, by the stride."""
    data = inputs[0]
    if data is None or attribute(node, "ceil_mode", 0) or attribute(node, "auto_pad", b"NOTSET") != b"NOTSET":
        return None
    kernel = list(attribute(node, "kernel_shape", ()))
    dilations = attribute(node, "dilations", [1] * len(kernel))
    pads = list(attribute(node, "pads", [0] * 2 * len(kernel)))
    room = [
        size + before + after - d * (k - 1) - 1
        for size, before, after, d, k in zip(
            data.shape[2:], pads[: len(kernel)], pads[len(kernel) :], dilations, kernel, strict=True
        )
    ]
    return "a window is larger than the padded image" if min(room, default=0) < 0 else None


@rule("MaxPool", "AveragePool")
def window_of_padding(node: NodeProto, inputs: list[np.ndarray | None]) -> str | None:
    """ONNX Runtime's largest of no pixel is the least number of the type, its reference's NaN, and a mean is 0 / 0."""
    data = inputs[0]
    if data is None or 0 in data.shape or (node.op_type == "AveragePool" and attribute(node, "count_include_pad", 0)):
        return None
    kernel = list(attribute(node, "kernel_shape", ()))
    strides, dilations = (list(attribute(node, n, [1] * len(kernel))) for n in ("strides", "dilations"))
    pads = list(attribute(node, "pads", [0] * 2 * len(kernel)))
    for axis, (size, k, stride, step) in enumerate(zip(data.shape[2:], kernel, strides, dilations, strict=True)):
        before, after = _padding(node, size, step * (k - 1) + 1, stride, (pads[axis], pads[axis + len(kernel)]))
        room = size + before + after - step * (k - 1) - 1
        count = (-(-room // stride) if attribute(node, "ceil_mode", 0) else room // stride) + 1
        starts = [o * stride - before for o in range(count) if o * stride < size + before]
        if not all(any(0 <= start + step * tap < size for tap in range(k)) for start in starts):
            return "a window holds padding alone"
    return None


def _padding(node: NodeProto, size: int, window: int, stride: int, pads: tuple[int, int]) -> tuple[int, int]:
    """The padding before and after one axis, by ``auto_pad`` or by *pads*."""
    how = attribute(node, "auto_pad", b"NOTSET")
    if not how.startswith(b"SAME"):
        return pads if how == b"NOTSET" else (0, 0)
    total = max((-(-size // stride) - 1) * stride + window - size, 0)
    return (total // 2, total - total // 2) if how == b"SAME_UPPER" else (total - total // 2, total // 2)


@rule("AveragePool", "MaxPool", "LpPool", "Conv")
def same_padding_below_zero(node: NodeProto, inputs: list[np.ndarray | None]) -> str | None:
    """ONNX Runtime crops (AveragePool) or refuses (MaxPool), the reference crops, TensorFlow pads by none."""
    data = inputs[0]
    if data is None or not attribute(node, "auto_pad", b"NOTSET").startswith(b"SAME"):
        return None
    spatial = data.shape[2:]
    weights = inputs[1] if len(inputs) > 1 else None
    window = attribute(node, "kernel_shape", () if weights is None else weights.shape[2:])
    ones = [1] * len(spatial)
    steps, strides = attribute(node, "dilations", ones), attribute(node, "strides", ones)
    for size, k, step, stride in zip(spatial, window, steps, strides, strict=True):
        if (-(-size // stride) - 1) * stride + step * (k - 1) + 1 < size:
            return "the padding of SAME would be less than none"
    return None


@rule("Clip")
def infinity_without_a_bound(node: NodeProto, inputs: list[np.ndarray | None]) -> str | None:
    """A bound that is left out is the largest finite number by ONNX's text, and none by its function body."""
    data, low, high = (*inputs, None, None)[:3]
    if data is None or data.dtype.kind in "iub":
        return None
    low, high = (attribute(node, "min", low), attribute(node, "max", high))
    wide = data.astype("float64")
    if (low is None and (wide == -np.inf).any()) or (high is None and (wide == np.inf).any()):
        return "an infinity meets a bound that is left out, and ONNX says both that it stays and that it does not"
    return None


@rule("Conv")
def padding_times_infinity(node: NodeProto, inputs: list[np.ndarray | None]) -> str | None:
    """ONNX Runtime itself multiplies by padded zeros with one layout of the data, and skips them with another."""
    weights = inputs[1]
    padded = any(attribute(node, "pads", ())) or attribute(node, "auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID")
    if not padded or weights is None or weights.dtype.kind in "iub" or np.isfinite(weights.astype("float64")).all():
        return None
    return "a weight that is no number meets padding, which may count as zeros or as nothing"
