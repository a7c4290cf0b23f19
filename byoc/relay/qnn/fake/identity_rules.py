"""Rules of operators that move or choose numbers: the integers move, and stand for the same.

Where scales lie along an axis the rule follows that axis, or refuses where it is lost. Source:
``register_unary_identity``, ``concatenate``, ``split``, ``topk`` and ``pad`` of ``fake_quantization_to_integer.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from byoc.errors import UserError
from byoc.ir.affine_type import TensorAffineType, TupleAffineType, as_tensor_affine_type, as_tuple_affine_type
from byoc.ir.attrs import Attrs, as_int, as_ints
from byoc.ir.expr import RelayExpr
from byoc.ir.op import OPS
from byoc.ir.types import TensorType
from byoc.relay import op as relay
from byoc.relay import qnn
from byoc.relay.expr import Call, Constant, Tuple
from byoc.relay.narrowing import operator_of
from byoc.relay.op.op import register_fake_quantization_to_integer as register
from byoc.relay.qnn.fake.parameters import fold_constant, held_in, is_per_axis, same_numbers, tensor_type
from byoc.relay.qnn.fake.rewriting import TypeMap

Result = Sequence[object]
# (attributes, type of the data, type of the result, axis) -> where the axis is in the result; None where it is lost
AxisRule = Callable[[Attrs, TensorType, TensorType, int], int | None]


def _kept(attrs: Attrs, data: TensorType, out: TensorType, axis: int) -> int | None:
    return axis if data.ndim == out.ndim and data.shape[axis] == out.shape[axis] else None


def _transposed(attrs: Attrs, data: TensorType, out: TensorType, axis: int) -> int | None:
    order = attrs["axes"]
    return data.ndim - 1 - axis if order is None else [a % data.ndim for a in as_ints(order)].index(axis)


def _expanded(attrs: Attrs, data: TensorType, out: TensorType, axis: int) -> int | None:
    at = as_int(attrs["axis"]) % (data.ndim + 1)
    return axis if axis < at else axis + as_int(attrs["num_newaxis"])


def _squeezed(attrs: Attrs, data: TensorType, out: TensorType, axis: int) -> int | None:
    given = attrs["axis"]
    ones = [k for k, d in enumerate(data.shape) if d == 1]
    gone = ones if given is None else [a % data.ndim for a in as_ints(given)]
    return None if axis in gone else axis - sum(k < axis for k in gone)


def _reshaped(attrs: Attrs, data: TensorType, out: TensorType, axis: int) -> int | None:
    """The axis of the result that has the same size with as many elements before it."""
    before = _count(data.shape[:axis])
    for k, size in enumerate(out.shape):
        if size == data.shape[axis] and before is not None and _count(out.shape[:k]) == before:
            return k
    return None


def _not_reversed(attrs: Attrs, data: TensorType, out: TensorType, axis: int) -> int | None:
    return None if as_int(attrs["axis"]) % data.ndim == axis else axis


def _lost(attrs: Attrs, data: TensorType, out: TensorType, axis: int) -> int | None:
    return None


def _count(dims: Sequence[object]) -> int | None:
    total = 1
    for dim in dims:
        if not isinstance(dim, int):
            return None
        total *= dim
    return total


def moved(ty: TensorAffineType, call: Call, data: RelayExpr, where: AxisRule) -> TensorAffineType:
    """*ty* of *data* as that of *call*. Raises UserError where scales lie along an axis that is lost."""
    if not is_per_axis(ty):
        return ty
    source, target = tensor_type(data), tensor_type(call)
    axis = where(call.attrs, source, target, ty.axis % source.ndim)
    if axis is None:
        raise UserError(f"{operator_of(call).name} loses axis {ty.axis}, along which the scales lie")
    return TensorAffineType(ty.scale, ty.zero_point, ty.dtype, axis)


def register_unary_identity(op_name: str, axis_rule: AxisRule = _kept) -> object:
    """Say that operator *op_name* only moves or chooses elements of its first argument."""

    def identity(expr: Call, type_map: TypeMap) -> Result:
        arg = expr.args[0]
        ty = type_map[arg]
        if not isinstance(ty, TensorAffineType):
            raise UserError(f"{op_name} of several tensors has no quantized form")
        return [expr, moved(ty, expr, arg, axis_rule)]

    return register(op_name, identity)


_AXES: dict[str, AxisRule] = {
    "squeeze": _squeezed,
    "expand_dims": _expanded,
    "transpose": _transposed,
    "reverse": _not_reversed,
    "layout_transform": _lost,
}
for _name in OPS:
    _op = OPS[_name]
    if _op.traits.carries == (0,) and _op.input_names in (("data",), ("data", "indices")):
        register_unary_identity(_name, _AXES.get(_name, _reshaped if _op.traits.is_view else _kept))
register_unary_identity("image.resize2d")


@register("broadcast_to")
def broadcast_to(expr: Call, type_map: TypeMap) -> Result:
    """The integers broadcast; axes are counted from the last."""
    arg = expr.args[0]

    def where(attrs: Attrs, data: TensorType, out: TensorType, axis: int) -> int | None:
        return axis + out.ndim - data.ndim

    return [expr, moved(as_tensor_affine_type(type_map[arg]), expr, arg, where)]


@register("concatenate")
def concatenate(expr: Call, type_map: TypeMap) -> Result:
    """Tensors of several scales become one by ``qnn.concatenate``."""
    types = [as_tensor_affine_type(ty) for ty in as_tuple_affine_type(type_map[expr.args[0]]).types]
    out = type_map[expr]
    assert isinstance(out, TensorAffineType)
    out = held_in(out, types[0].dtype)
    scales, zeros = Tuple([t.scale for t in types]), Tuple([t.zero_point for t in types])
    joined = qnn.op.concatenate(expr.args[0], scales, zeros, out.scale, out.zero_point, **expr.attrs)
    return [joined, out]


@register("split")
def split(expr: Call, type_map: TypeMap) -> Result:
    """Each section stands for what the whole does. Raises UserError along the axis of the scales."""
    ty, data = type_map[expr.args[0]], tensor_type(expr.args[0])
    assert isinstance(ty, TensorAffineType)
    at = expr.attrs["axis"]
    if is_per_axis(ty) and ty.axis % data.ndim == int(at) % data.ndim:
        raise UserError(f"split cuts axis {at}, along which the scales lie")
    sections = expr.attrs["indices_or_sections"]
    count = sections if isinstance(sections, int) else len(sections) + 1
    return [expr, TupleAffineType([ty] * count)]


@register("topk")
def topk(expr: Call, type_map: TypeMap) -> Result:
    """The greatest integers are those of the greatest numbers. Raises UserError where indices are asked for too."""
    if expr.attrs["ret_type"] != "values":
        raise UserError(f"topk of integers gives values alone, got ret_type {expr.attrs['ret_type']!r}")
    arg = expr.args[0]
    return [expr, moved(as_tensor_affine_type(type_map[arg]), expr, arg, _kept)]


@register("nn.pad")
def pad(expr: Call, type_map: TypeMap) -> Result:
    """Padding with the integer of the pad value, which may be quantized or a constant."""
    arg, value = expr.args
    ty = type_map[arg]
    assert isinstance(ty, TensorAffineType)
    if is_per_axis(ty):
        raise UserError("a pad value has no one integer where the data has several scales")
    if value in type_map:
        pad_type = type_map[value]
        assert isinstance(pad_type, TensorAffineType)
        if not same_numbers(ty, pad_type):
            value = qnn.op.requantize(
                value, pad_type.scale, pad_type.zero_point, ty.scale, ty.zero_point, pad_type.axis, out_dtype=ty.dtype
            )
    elif isinstance(value, Constant):
        value = qnn.op.quantize(value, ty.scale, ty.zero_point, out_dtype=ty.dtype)
    else:
        raise UserError("the pad value must be quantized or a constant")
    return [relay.nn.pad(arg, pad_value=fold_constant(value), **expr.attrs), ty]
