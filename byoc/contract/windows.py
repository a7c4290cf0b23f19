"""What a convolution or a pooling looks at, from its attributes in whichever of Relay's forms they are written.

``padding`` may be written with 1 number, with one for each spatial axis, or with all; ``strides`` and ``dilation`` with
1 or one for each axis; ``kernel_size`` not at all, since the weights have it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from byoc.errors import CompileError
from byoc.ir.attrs import as_ints
from byoc.ir.dims import Dim
from byoc.ir.expr import RelayExpr
from byoc.ir.types import TensorType, tensor_types
from byoc.relay.expr import Call
from byoc.relay.op.core.window import pad_tuple, per_axis

LAYOUTS = ("data_layout", "layout")  # the attribute of convolutions, and of poolings
NO_SPACE = "NCGOI"  # axes of layouts that are not spatial


@dataclass(frozen=True)
class Window:
    """The window of a convolution or a pooling over n spatial axes, in the order of the layout of its data.

    *kernel*, *strides* and *dilation* have n numbers, *padding* 2 n: all before, then all after (top, left, bottom,
    right).
    """

    kernel: tuple[Dim, ...]
    strides: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]


class PaddingKind(enum.Enum):
    """How the windows of a convolution or a pooling lie over an image of known sizes."""

    VALID = "valid"
    """No padding, and nothing of a window lies outside."""
    SAME = "same"
    """As TensorFlow's ``SAME``: a result for each step in the image, the odd column of padding behind it."""
    EXPLICIT = "explicit"
    """Other widths, with the last window inside of the padded image."""
    OVERHANGING = "overhanging"
    """The last window reaches over the padded image, as ``ceil_mode`` lets it."""


def padding_kind(call: Call) -> PaddingKind:
    """How the typed *call* of a convolution or a pooling is padded. VALID comes before SAME where it is both.

    Raises CompileError for another operator, and for sizes that are known only when the region runs.
    """
    window = window_of(call)
    spaces = list(zip(_space(call, call.args[0]), _space(call, call), strict=True))
    count = len(spaces)
    found = {PaddingKind.VALID, PaddingKind.SAME, PaddingKind.EXPLICIT}
    for k, (size, out) in enumerate(spaces):
        span, stride = (int(window.kernel[k]) - 1) * window.dilation[k] + 1, window.strides[k]
        pads = (window.padding[k], window.padding[count + k])
        if (size + sum(pads) - span) // stride + 1 != out:
            found -= {PaddingKind.VALID, PaddingKind.EXPLICIT}
        if any(pads):
            found -= {PaddingKind.VALID}
        steps = -(-size // stride)
        missing = max((steps - 1) * stride + span - size, 0)
        if pads != (missing // 2, missing - missing // 2) or out != steps:
            found -= {PaddingKind.SAME}
    return next((kind for kind in PaddingKind if kind in found), PaddingKind.OVERHANGING)


def _space(call: Call, value: RelayExpr) -> list[int]:
    """The sizes of an image's spatial axes, in the order of the layout of *call*. Raises CompileError for free ones."""
    layout, (image, *_) = _layout(call), tensor_types(value.checked_type)
    sizes = [image.shape[layout.index(axis)] for axis in layout if axis.isupper() and axis not in NO_SPACE]
    if not all(isinstance(size, int) for size in sizes):
        raise CompileError(f"{call.op} of {image}: its padding is known only when it runs: refuse it by static_sizes()")
    return [int(size) for size in sizes]


def window_of(call: Call) -> Window:
    """The window of the typed *call* of a convolution or a pooling. Raises CompileError for another operator."""
    attrs, layout = call.attrs, _layout(call)
    axes = [letter for letter in layout if letter.isupper() and letter not in NO_SPACE]
    if not axes or not hasattr(attrs, "padding") or not hasattr(attrs, "strides"):
        raise CompileError(f"{call.op} has no window: it is neither a convolution nor a pooling")
    count = len(axes)
    kernel = _kernel(call, axes)
    return Window(
        kernel,
        per_axis(as_ints(attrs.strides), count, "strides"),
        pad_tuple(as_ints(attrs.padding), count),
        per_axis(as_ints(getattr(attrs, "dilation", (1,))), count, "dilation"),
    )


def _layout(call: Call) -> str:
    return next((value for name in LAYOUTS if isinstance(value := getattr(call.attrs, name, None), str)), "")


def _kernel(call: Call, axes: list[str]) -> tuple[Dim, ...]:
    pool = getattr(call.attrs, "pool_size", None)
    if pool is not None:
        return per_axis(as_ints(pool), len(axes), "pool_size")
    layout = [letter for letter in str(getattr(call.attrs, "kernel_layout", "")) if letter.isupper()]
    weight = call.args[1].checked_type if len(call.args) > 1 else None
    if not isinstance(weight, TensorType) or not set(axes) <= set(layout):
        raise CompileError(f"{call.op} has no weights whose layout says the size of its window")
    return tuple(weight.shape[layout.index(axis)] for axis in axes)
