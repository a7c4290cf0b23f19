"""The geometry of a convolution: its axes, sizes, groups and windows, and kernels with an axis of groups.

The type relation, the tensor expression and the operation count of every convolution and transposed convolution start
from a :class:`Geometry`, in which axes have the canonical order ``N C spatial``. Source: the type relations of Relay's
``nn/convolution.h``, which also takes depthwise kernels as ``[C, multiplier, ...]`` (``HWOI``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from byoc import te
from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.size_var import parted, times
from byoc.ir.types import Any, Dim, TensorType, Type
from byoc.relay.op.attributes.convolution import ConvAttrs, TransposedAttrs
from byoc.relay.op.core.window import (
    arranged,
    axes_of,
    data_letters,
    differ,
    kernel_letters,
    pad_pairs,
    per_axis,
    tensor_of,
    transposed_extent,
    window_extent,
)
from byoc.te import Index, PrimExpr, Size, Tensor

if TYPE_CHECKING:
    from byoc.relay.op.attributes.convolution import ConvAttrs, TransposedAttrs


# Kernels of grouped convolutions with an axis of groups (``GOIHW``, ``GIOHW``): the same numbers in the same order as
# the plain kernel, whose axis O (I of a transposed convolution) runs along all groups. Source:
# ``dnnl.legalize_group_conv``.

GROUP = "G"


def has_group_axis(layout: str) -> bool:
    """Whether the first axis of a kernel in *layout* is that of the groups."""
    return layout.startswith(GROUP)


def merged_type(kernel: TensorType, attrs: ConvAttrs | TransposedAttrs, along: str) -> tuple[TensorType, str]:
    """The type and the layout of *kernel* with its groups in the axis *along*; both as they are without such an axis.

    Raises TypeInferenceError where the axis is not as long as there are groups.
    """
    layout = str(attrs.kernel_layout)
    if not has_group_axis(layout) or kernel.ndim != len(layout):
        return kernel, layout
    groups = attrs.groups
    if differ(kernel.shape[0], groups):
        raise TypeInferenceError(f"the kernel has {kernel.shape[0]} groups in layout {layout}, the attributes {groups}")
    sizes: list[Dim] = [*kernel.shape[1:]]
    place = layout.index(along) - 1
    sizes[place] = times(sizes[place], groups)
    return TensorType(sizes, kernel.dtype), layout[1:]


def merged_stage(kernel: Tensor, layout: str, along: str) -> Tensor:
    """The elements of *kernel*, whose layout begins with the groups, with these in the axis *along*."""
    groups, *sizes = kernel.shape
    place = layout.index(along) - 1
    per_group, sizes[place] = sizes[place], sizes[place] * groups

    def element(*index: Index) -> PrimExpr:
        at: list[PrimExpr] = list(index)
        at[place] = index[place] % per_group
        return kernel(index[place] / per_group, *at)

    return te.compute(sizes, element, name="merge_groups")


@dataclass(frozen=True)
class Geometry:
    """``data [batch, channels, *sizes]`` by ``groups`` kernels of extent ``kernel`` to ``[batch, out, *out_sizes]``.

    *reduced* is the number of input channels that one output element sees; *multiplier* is 0, or the number of
    outputs per channel where the kernel has Relay's depthwise form ``[channels, multiplier, ...]``.
    """

    batch: Dim
    channels: Dim
    sizes: tuple[Dim, ...]
    out: int  # of these three what is not known is an Any: such a kernel is given when it runs
    reduced: int
    groups: int
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    out_sizes: tuple[Dim, ...]
    multiplier: int
    dtype: str

    @property
    def is_depthwise(self) -> bool:
        """True where each output channel sees one input channel of its own group."""
        return self.groups > 1 and self.reduced == 1

    def result(self, layout: str) -> TensorType:
        """The type of the result in *layout*."""
        dims = (self.batch, self.out, *self.out_sizes)
        return TensorType(arranged(dims, data_letters(len(self.sizes)), layout), self.dtype)


def _parts(
    types: Sequence[Type], attrs: ConvAttrs | TransposedAttrs, n: int, grouped: str
) -> tuple[tuple[Dim, ...], tuple[int, ...], str]:
    """Sizes of data (``N C spatial``) and kernel (``O I spatial``, all groups in *grouped*), and the result's dtype."""
    letters, kernel_order = data_letters(n), kernel_letters(n)
    kernel_layout, given_kernel = attrs.kernel_layout, types[1]
    if isinstance(given_kernel, TensorType):
        given_kernel, kernel_layout = merged_type(given_kernel, attrs, grouped)
    data, weight = tensor_of(types[0], n + 2, "data"), tensor_of(given_kernel, n + 2, "the kernel")
    dims = tuple(data.shape[a] for a in axes_of(attrs.data_layout, letters, "data"))
    axes_of(attrs.out_layout or attrs.data_layout, letters, "output")
    kernel = tuple(weight.shape[a] for a in axes_of(kernel_layout, kernel_order, "kernel"))
    if attrs.kernel_size is not None:
        extent = per_axis(attrs.kernel_size, n, "kernel_size")
        if any(differ(a, b) for a, b in zip(extent, kernel[2:], strict=True)):
            raise TypeInferenceError(f"kernel_size is {attrs.kernel_size}, the kernel has {kernel[2:]}")
        kernel = (*kernel[:2], *extent)
    return dims, kernel, attrs.out_dtype or data.dtype  # type: ignore[return-value]


def _known(size: Dim, otherwise: Dim | None, parts: int = 1) -> int:
    """*size*, or where it is not known what *otherwise* gives for each of so many *parts*; else Any, as in Geometry."""
    if not isinstance(size, Any):
        return size
    if otherwise is None or isinstance(otherwise, Any):
        return size  # type: ignore[return-value]  # a kernel that is given when it runs
    return otherwise // parts if parts > 0 else otherwise


def _check_groups(groups: int, channels: Dim, out: Dim) -> None:
    if groups < 1:
        raise TypeInferenceError(f"groups must be positive, got {groups}")
    for size, what in ((channels, "input"), (out, "output")):
        if not isinstance(size, Any) and size % groups:
            raise TypeInferenceError(f"{size} {what} channels cannot be divided into {groups} groups")


def _check_channels(attrs: ConvAttrs | TransposedAttrs, out: Dim) -> None:
    if attrs.channels is not None and differ(attrs.channels, out):
        raise TypeInferenceError(f"channels is {attrs.channels}, the kernel gives {out}")


def conv_geometry(types: Sequence[Type], attrs: ConvAttrs, n: int) -> Geometry:
    """The sizes of a convolution with *n* spatial axes. Raises TypeInferenceError where they do not fit."""
    dims, kernel, dtype = _parts(types, attrs, n, "O")
    channels, multiplier = dims[1], 0
    out, reduced = _known(kernel[0], attrs.channels), _known(kernel[1], channels, attrs.groups)
    if attrs.groups > 1 and attrs.groups == channels == out:
        multiplier, out, reduced = reduced, out * reduced, 1
    _check_groups(attrs.groups, channels, out)
    if differ(channels, times(reduced, attrs.groups)):
        raise TypeInferenceError(f"data has {channels} channels, the kernel expects {reduced} x groups {attrs.groups}")
    _check_channels(attrs, out)
    strides, dilation = per_axis(attrs.strides, n, "strides"), per_axis(attrs.dilation, n, "dilation")
    pads = pad_pairs(attrs.padding, n)
    sizes = tuple(window_extent(*axis) for axis in zip(dims[2:], kernel[2:], strides, dilation, pads, strict=True))
    return Geometry(
        dims[0],
        channels,
        dims[2:],
        out,
        reduced,
        attrs.groups,
        kernel[2:],
        strides,
        dilation,
        pads,
        sizes,
        multiplier,
        dtype,
    )


def transposed_geometry(types: Sequence[Type], attrs: TransposedAttrs, n: int) -> Geometry:
    """The sizes of a transposed convolution: its kernel has the input's channels as I, those of one group as O.

    Raises TypeInferenceError where they do not fit.
    """
    dims, kernel, dtype = _parts(types, attrs, n, "I")
    channels = dims[1]
    taken, out = _known(kernel[1], channels), _known(times(kernel[0], attrs.groups), attrs.channels)
    if differ(channels, taken):
        raise TypeInferenceError(f"data has {channels} channels, the kernel expects {taken}")
    _check_groups(attrs.groups, taken, out)
    _check_channels(attrs, out)
    strides, dilation = per_axis(attrs.strides, n, "strides"), per_axis(attrs.dilation, n, "dilation")
    pads, extra = pad_pairs(attrs.padding, n), per_axis(attrs.output_padding[:n], n, "output_padding")
    sizes = tuple(
        transposed_extent(*axis) for axis in zip(dims[2:], kernel[2:], strides, dilation, pads, extra, strict=True)
    )
    return Geometry(
        dims[0],
        channels,
        dims[2:],
        out,
        _known(parted(taken, attrs.groups) if attrs.groups > 1 else taken, None),
        attrs.groups,
        kernel[2:],
        strides,
        dilation,
        pads,
        sizes,
        0,
        dtype,
    )


def one_dtype_or_result(dtypes: Sequence[str], attrs: Attrs | None) -> bool:
    """True where code is generated for a convolution: its factors have one dtype, or it says that of its result.

    The relation does not compare them, as in Relay.
    """
    return len(set(dtypes)) == 1 or (attrs is not None and bool(attrs["out_dtype"]))


def types_of(inputs: Sequence[Tensor]) -> list[Type]:
    """The types of the inputs of a tensor expression; a size known at run time is an Any of its name."""
    return [TensorType([Any(d.name) if isinstance(d, Size) else int(d) for d in t.shape], t.dtype) for t in inputs]


def size_of(dims: Sequence[Dim]) -> int:
    """The product of sizes, dynamic ones counted as 1."""
    return math.prod(1 if isinstance(d, Any) else d for d in dims)


def conv_operations(geometry: Geometry) -> int:
    """Two operations for each multiply-add of a convolution."""
    outputs = size_of((geometry.batch, geometry.out, *geometry.out_sizes))
    return 2 * outputs * size_of((geometry.reduced, *geometry.kernel))


def transposed_operations(geometry: Geometry) -> int:
    """Two operations for each multiply-add of a transposed convolution: every input meets every kernel element."""
    inputs = size_of((geometry.batch, geometry.out, *geometry.sizes))
    return 2 * inputs * size_of((geometry.reduced, *geometry.kernel))
