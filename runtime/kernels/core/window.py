"""How many windows fit along an axis whose size is known only at run time.

The arithmetic, and the refusal of a window that does not fit, are those of ``byoc.relay.op.core.window`` for sizes
that are known when compiling. (ONNX Runtime refuses such sizes too, but for pools whose window is too large by less
than a stride: it rounds the negative number of windows towards zero, against ONNX's formula.)
"""

from __future__ import annotations

from dataclasses import dataclass

from byoc.runtime.core.errors import KernelError
from byoc.runtime.kernels.core.attributes import KernelAttributes


@dataclass(frozen=True, kw_only=True)
class WindowAttributes(KernelAttributes):
    """How a window slides: one number stands for all axes; padding is all before, then all after."""

    strides: tuple[int, ...] = (1,)
    padding: tuple[int, ...] = (0,)
    dilation: tuple[int, ...] = (1,)


def window_count(
    size: int, kernel: int, stride: int, dilation: int, pads: tuple[int, int], ceil_mode: bool = False
) -> int:
    """The windows along an axis of *size*. Raises KernelError when none fits."""
    span = dilation * (kernel - 1) + 1
    room = size + sum(pads) - span
    if room < (1 - stride if ceil_mode else 0):
        least = span - sum(pads) + (1 - stride if ceil_mode else 0)
        raise KernelError(
            f"a window of {span} does not fit in an axis of {size} with padding {pads[0]} and {pads[1]}: "
            f"give data with {least} or more elements there"
        )
    if not ceil_mode:
        return room // stride + 1
    count = -(-room // stride) + 1
    return count - 1 if (count - 1) * stride >= size + pads[0] else count


def transposed_size(
    size: int, kernel: int, stride: int, dilation: int, pads: tuple[int, int], output_padding: int
) -> int:
    """An axis of *size* after a transposed convolution. Raises KernelError when nothing is left of it."""
    out = (size - 1) * stride + dilation * (kernel - 1) + 1 + output_padding - sum(pads)
    if size < 1 or out < 1:
        raise KernelError(f"padding {pads[0]} and {pads[1]} leaves nothing of an axis of {size}: give larger data")
    return out
