"""Which axes and places a call speaks of, from its attributes in whichever of Relay's forms they are written.

An axis may be counted from the end, a list of axes be left out for all of them (or, of a transpose, for their reverse),
``exclude`` name those that stay; ends of a slice may lie beyond the tensor.
"""

from __future__ import annotations

from byoc.errors import CompileError
from byoc.ir.op import Op
from byoc.ir.types import TensorType, TupleType, tensor_types
from byoc.relay.expr import Call
from byoc.relay.narrowing import as_tensor_type
from byoc.relay.op.movement.slice import slices
from byoc.relay.op.numeric.reduce import reduced_axes as axes_of_reduction


def axis_of(call: Call, name: str = "axis") -> int:
    """The attribute *name* of the typed *call* as an axis of its first operand, or tensor of a tuple, not below 0.

    Of ``expand_dims``, ``stack`` and ``one_hot``, whose ``axis`` says where a new one comes, it is that axis of the
    result. Raises CompileError where the call has no such attribute, or None or a list stands there.
    """
    axis = getattr(call.attrs, name, None)
    if not isinstance(axis, int):
        raise CompileError(f"{call.op} has no attribute {name} that is an axis: {axis!r}")
    return axis % axis_count(call, name)


def axis_count(call: Call, name: str = "axis") -> int:
    """How many values the attribute *name* of the typed *call*, an axis, has from 0 on; a negative one is that many
    below.
    """
    inserts = name == "axis" and isinstance(call.op, Op) and call.op.traits.inserts_axis
    return max(_data(call).ndim + inserts, 1)


def permutation_of(call: Call) -> tuple[int, ...]:
    """The axes of the data that a ``transpose``, or a ``layout_transform`` between plain layouts, takes one by one."""
    attrs, ndim = call.attrs, _data(call).ndim
    if hasattr(attrs, "src_layout"):
        source = str(attrs.src_layout)
        return tuple(source.index(axis) for axis in str(attrs.dst_layout))
    return tuple(int(a) % ndim for a in attrs.axes or reversed(range(ndim)))


def reduced_axes(call: Call) -> tuple[int, ...]:
    """The axes that a reduction goes over, in order."""
    return axes_of_reduction(call.attrs, _data(call).ndim)


def slices_of(call: Call) -> tuple[slice, ...]:
    """What a ``strided_slice`` of a static tensor takes along each axis: ``start``, ``stop`` and ``step`` as numbers.

    ``stop`` is one step behind the last element that is taken, so that it is -1 where a slice goes backwards to the
    first. Raises CompileError where a size is known only when the region runs.
    """
    shape = _data(call).shape
    if not all(isinstance(size, int) for size in shape):
        raise CompileError(f"{call.op} of {_data(call)} has no places that are known: refuse it by static_sizes()")
    cuts = slices(call.attrs, len(shape))
    found = []
    for axis, size in enumerate(shape):
        start, stop, step = cuts.get(axis, slice(None)).indices(int(size))
        taken = len(range(start, stop, step))
        found.append(slice(start, start + taken * step, step))
    return tuple(found)


def _data(call: Call) -> TensorType:
    ty = call.args[0].checked_type
    tensors = tensor_types(ty)
    return tensors[0] if isinstance(ty, TupleType) and tensors else as_tensor_type(ty)
