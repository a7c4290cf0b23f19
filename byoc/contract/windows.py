"""What a convolution or a pooling looks at, from its attributes in whichever of Relay's forms they are written.

``padding`` may be written with 1 number, with one for each spatial axis, or with all; ``strides`` and ``dilation`` with
1 or one for each axis; ``kernel_size`` not at all, since the weights have it.
"""

from __future__ import annotations

from dataclasses import dataclass

from byoc.errors import CompileError
from byoc.ir.attrs import as_ints
from byoc.ir.dims import Dim
from byoc.ir.types import TensorType
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


def window_of(call: Call) -> Window:
    """The window of the typed *call* of a convolution or a pooling. Raises CompileError for another operator."""
    attrs = call.attrs
    layout = next((value for name in LAYOUTS if isinstance(value := getattr(attrs, name, None), str)), "")
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


def _kernel(call: Call, axes: list[str]) -> tuple[Dim, ...]:
    pool = getattr(call.attrs, "pool_size", None)
    if pool is not None:
        return per_axis(as_ints(pool), len(axes), "pool_size")
    layout = [letter for letter in str(getattr(call.attrs, "kernel_layout", "")) if letter.isupper()]
    weight = call.args[1].checked_type if len(call.args) > 1 else None
    if not isinstance(weight, TensorType) or not set(axes) <= set(layout):
        raise CompileError(f"{call.op} has no weights whose layout says the size of its window")
    return tuple(weight.shape[layout.index(axis)] for axis in axes)
