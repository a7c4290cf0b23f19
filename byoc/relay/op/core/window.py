"""Layouts, and sliding windows: the sizes that convolutions, pools and their transposes share.

Padding is written as Relay writes it: all that comes before, then all that comes after, ``(top, left, bottom, right)``
in two dimensions. A dynamic size stays named only where the window keeps it whatever it is; any other dynamic size
becomes unnamed. Source: ``get_pad_tuple2d`` and the type relations of Relay's convolutions and pools.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from byoc.errors import TypeInferenceError
from byoc.ir.size_var import lesser, parted, plus, times, windowed
from byoc.ir.types import Any, Dim, TensorType, Type


def per_axis(value: int | Sequence[int], n: int, what: str) -> tuple[int, ...]:
    """*value* as one number for each of *n* axes; a single number stands for all.

    Raises TypeInferenceError for another count of numbers.
    """
    numbers = (value,) if isinstance(value, int) else tuple(int(v) for v in value)
    if len(numbers) == 1:
        return numbers * n
    if len(numbers) != n:
        raise TypeInferenceError(f"{what} takes 1 or {n} numbers, got {len(numbers)}: {numbers}")
    return numbers


def pad_tuple(padding: int | Sequence[int], n: int) -> tuple[int, ...]:
    """*padding* as ``2 n`` numbers, all before and then all after; 1 or *n* numbers pad both sides alike.

    Raises TypeInferenceError for another count of numbers or a negative one.
    """
    numbers = (padding,) if isinstance(padding, int) else tuple(int(v) for v in padding)
    if len(numbers) not in (1, n, 2 * n):
        raise TypeInferenceError(f"padding takes 1, {n} or {2 * n} numbers, got {len(numbers)}: {numbers}")
    if any(p < 0 for p in numbers):
        raise TypeInferenceError(f"padding must not be negative, got {numbers}")
    if len(numbers) == 1:
        return numbers * (2 * n)
    return numbers * 2 if len(numbers) == n else numbers


def pad_pairs(padding: int | Sequence[int], n: int) -> tuple[tuple[int, int], ...]:
    """*padding* as one ``(before, after)`` for each axis."""
    flat = pad_tuple(padding, n)
    return tuple(zip(flat[:n], flat[n:], strict=True))


def window_extent(
    size: Dim, kernel: Dim, stride: int, dilation: int, pads: tuple[int, int], ceil_mode: bool = False
) -> Dim:
    """How many windows fit along one axis.

    In *ceil_mode* a last window may hang over the end if it starts inside the data or the padding before it (ONNX and
    PyTorch; Relay also counts a window that sees padding alone); it may be the only one, wider than the data by less
    than a stride. Raises TypeInferenceError when none fits.
    """
    if isinstance(kernel, Any):
        return Any()
    span = dilation * (kernel - 1) + 1
    if min(kernel, stride, dilation) < 1:
        raise TypeInferenceError(f"kernel {kernel}, stride {stride} and dilation {dilation} must be positive")
    if isinstance(size, Any):
        if stride == 1 and sum(pads) == span - 1:
            return size
        count = plus(parted(plus(size, sum(pads) - span + (stride - 1 if ceil_mode else 0)), stride), 1)
        if ceil_mode and stride > 1:
            count = lesser(count, parted(plus(size, pads[0] + stride - 1), stride))
        return windowed(count)
    room = size + sum(pads) - span
    if room < (1 - stride if ceil_mode else 0):
        raise TypeInferenceError(
            f"a window of {span} does not fit in an axis of {size} with padding {pads[0]} and {pads[1]}"
        )
    count = (room + (stride - 1 if ceil_mode else 0)) // stride + 1
    if ceil_mode and (count - 1) * stride >= size + pads[0]:
        count -= 1
    return count


def transposed_extent(
    size: Dim, kernel: Dim, stride: int, dilation: int, pads: tuple[int, int], output_padding: int
) -> Dim:
    """The size of one axis after a transposed convolution. Raises TypeInferenceError when nothing is left."""
    if isinstance(kernel, Any):
        return Any()
    grown = dilation * (kernel - 1) + 1 + output_padding - sum(pads)
    if min(kernel, stride, dilation) < 1:
        raise TypeInferenceError(f"kernel {kernel}, stride {stride} and dilation {dilation} must be positive")
    if output_padding < 0:
        raise TypeInferenceError(f"output_padding must not be negative, got {output_padding}")
    if isinstance(size, Any):
        return size if stride == 1 and grown == 1 else windowed(plus(times(plus(size, -1), stride), grown))
    out = (size - 1) * stride + grown
    if out < 1:
        raise TypeInferenceError(f"padding {pads[0]} and {pads[1]} leaves nothing of an axis of {size}")
    return out


def differ(a: Dim, b: Dim) -> bool:
    """True when two sizes are known and not the same."""
    return isinstance(a, int) and isinstance(b, int) and a != b


# Layouts: the order of a tensor's axes as a word of letters (``NCHW``), in any permutation; blocked layouts
# (``NCHW16c``) belong to code generators. Source: ``tvm.tir.Layout``.

SPATIAL = "DHW"


def spatial_letters(n: int) -> str:
    """The letters of *n* spatial axes: ``W``, ``HW`` or ``DHW``."""
    return SPATIAL[3 - n :]


@functools.lru_cache(1024)  # words of layouts are few, and asked for at each type of a convolution or pool
def axes_of(layout: str, letters: str, what: str) -> tuple[int, ...]:
    """The position in *layout* of each of *letters*.

    Raises TypeInferenceError when *layout* is not an order of exactly these letters.
    """
    if sorted(layout) != sorted(letters):
        raise TypeInferenceError(f"the {what} layout must be an order of the letters of {letters}, got {layout!r}")
    return tuple(layout.index(letter) for letter in letters)


def data_letters(n: int) -> str:
    """The canonical layout of data with *n* spatial axes: ``NCHW``."""
    return "NC" + spatial_letters(n)


def kernel_letters(n: int) -> str:
    """The canonical layout of a convolution's kernel: ``OIHW``."""
    return "OI" + spatial_letters(n)


def tensor_of(ty: Type, ndim: int, what: str) -> TensorType:
    """*ty* as a tensor of *ndim* dimensions. Raises TypeInferenceError for anything else."""
    if not isinstance(ty, TensorType) or ty.ndim != ndim:
        raise TypeInferenceError(f"{what} must be a tensor of {ndim} dimensions, got {ty}")
    return ty


def arranged(dims: Sequence[Dim], letters: str, layout: str) -> tuple[Dim, ...]:
    """Sizes given in the order of *letters*, in the order of *layout*."""
    return tuple(dims[letters.index(letter)] for letter in layout)
