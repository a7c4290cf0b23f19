"""What operators say of inputs whose type nobody gave: a weight's shape follows from its data and the attributes.

Each rule gets the types of the inputs (None where unknown), that of the result (None where unknown) and the attributes,
and returns the types of the inputs with those filled in that follow. Source: the input assignments in Relay's type
relations (``Conv2DRel``, ``DenseRel``, ``BiasAddRel``, ``BatchNormRel``, ``IdentityRel`` and others).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from byoc.ir.attrs import Attrs
from byoc.ir.dims import Any, Dim
from byoc.ir.types import TensorType, Type
from byoc.relay.op.core.type_relations import normalize_axis
from byoc.relay.op.core.window import arranged, axes_of, data_letters, kernel_letters, per_axis

if TYPE_CHECKING:
    from byoc.relay.op.attributes.convolution import ConvAttrs, DenseAttrs, MatmulAttrs, TransposedAttrs

Types = Sequence[Type | None]


class HasAxis(Protocol):
    """Attributes with an axis."""

    @property
    def axis(self) -> int:
        """The axis, which may count from the end."""


def same_as_result(types: Types, out: Type | None, attrs: Attrs | None) -> Types:
    """The input has the type of the result."""
    return [ty if ty is not None else out for ty in types]


def vectors_of_axis(count: int) -> Callable[[Types, Type | None, HasAxis], Types]:
    """*count* inputs after the data hold one number of its dtype for each index of ``attrs.axis``."""

    def rule(types: Types, out: Type | None, attrs: HasAxis) -> Types:
        data = types[0]
        if not isinstance(data, TensorType):
            return types
        size = data.shape[normalize_axis(attrs.axis, data.ndim)]
        return [data, *(ty or TensorType([size], data.dtype) for ty in types[1 : count + 1])]

    return rule


def dense_weight(types: Types, out: Type | None, attrs: DenseAttrs) -> Types:
    """The weight of ``nn.dense`` is ``[units, features]``."""
    data = types[0]
    if not isinstance(data, TensorType) or attrs.units is None or not data.ndim:
        return types
    return [data, types[1] or TensorType([attrs.units, data.shape[-1]], data.dtype)]


def matmul_weight(types: Types, out: Type | None, attrs: MatmulAttrs) -> Types:
    """The second matrix of ``nn.matmul`` has as many columns as *units* says."""
    data = types[0]
    if not isinstance(data, TensorType) or attrs.units is None or data.ndim < 2:
        return types
    inner = data.shape[-2 if attrs.transpose_a else -1]
    shape = (attrs.units, inner) if attrs.transpose_b else (inner, attrs.units)
    return [data, types[1] or TensorType(shape, data.dtype)]


def conv_weight(n: int, transposed: bool = False) -> Callable[[Types, Type | None, ConvAttrs | TransposedAttrs], Types]:
    """The kernel of a convolution with *n* spatial axes, from ``channels``, ``kernel_size`` and ``groups``.

    A depthwise convolution with as many channels as groups has Relay's form ``[channels, multiplier, …]``.
    """

    def rule(types: Types, out: Type | None, attrs: ConvAttrs | TransposedAttrs) -> Types:
        data = types[0]
        channels, extent = attrs.channels, attrs.kernel_size
        if not isinstance(data, TensorType) or data.ndim != n + 2 or channels is None or extent is None:
            return types
        layout = attrs.data_layout
        inputs = data.shape[axes_of(layout, data_letters(n), "data")[1]]
        pair = _kernel_channels(inputs, channels, attrs.groups, transposed)
        dims = (*pair, *per_axis(extent, n, "kernel_size"))
        letters, layout = kernel_letters(n), attrs.kernel_layout
        if "G" in layout:  # the groups have an axis of their own
            groups, letters = attrs.groups, f"G{letters}"
            dims = (groups, *_of_one_group(pair, groups, transposed), *dims[2:])
        shape = arranged(dims, letters, layout)
        return [data, types[1] or TensorType(shape, data.dtype), *types[2:]]

    return rule


def _of_one_group(pair: tuple[Dim, Dim], groups: int, transposed: bool) -> tuple[Dim, Dim]:
    """O and I of one group, from those of a kernel in which O (I where *transposed*) runs along all groups."""
    outputs, inputs = pair
    along = inputs if transposed else outputs
    each = Any() if isinstance(along, Any) else along // groups
    return (outputs, each) if transposed else (each, inputs)


def _kernel_channels(inputs: Dim, channels: int, groups: int, transposed: bool) -> tuple[Dim, Dim]:
    """The sizes of O and I of a kernel."""
    if transposed:
        return channels // groups, inputs
    if isinstance(inputs, Any):
        return channels, Any() if groups > 1 else inputs
    if groups > 1 and groups == inputs and channels % groups == 0:
        return groups, channels // groups
    return channels, inputs // groups
