"""Rules of operators on each element, or on pairs of elements.

Source: ``register_binary_qnn``, ``register_binary_identity``, ``register_unary_qnn``, ``clip``, ``relu`` and
``leaky_relu`` of ``fake_quantization_to_integer.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from byoc.errors import UserError
from byoc.ir.affine_type import TensorAffineType, as_tensor_affine_type
from byoc.ir.expr import RelayExpr
from byoc.ir.op import OPS
from byoc.ir.traits import Scaling
from byoc.relay import op as relay
from byoc.relay import qnn
from byoc.relay.expr import Call, Constant, constant
from byoc.relay.op.op import register_fake_quantization_to_integer as register
from byoc.relay.op.op import register_optional_fake_quantization_to_integer as register_optional
from byoc.relay.qnn.fake.parameters import (
    along_axis,
    fold_constant,
    held_in,
    is_per_axis,
    same_numbers,
    tensor_type,
)
from byoc.relay.qnn.fake.rewriting import TypeMap

Result = Sequence[object]
Sides = tuple[RelayExpr, RelayExpr, TensorAffineType, TensorAffineType, TensorAffineType]


def get_binary_types(expr: Call, type_map: TypeMap) -> Sides:
    """Both operands and what they stand for, and a type for the result that the operands' dtype can hold.

    A constant is quantized; operands of two dtypes are widened to int32. Raises TypeError where neither is quantized,
    UserError for one that is neither quantized nor a constant.
    """
    left, right = expr.args
    left_t, right_t = type_map.get(left), type_map.get(right)
    if left_t is None and right_t is None:
        raise TypeError("neither input is quantized!")
    if left_t is None:
        left, left_t = _quantized_constant(left, as_tensor_affine_type(right_t))
    if right_t is None:
        right, right_t = _quantized_constant(right, as_tensor_affine_type(left_t))
    assert isinstance(left_t, TensorAffineType) and isinstance(right_t, TensorAffineType)
    if left_t.dtype != right_t.dtype:
        (left, left_t), (right, right_t) = _widened(left, left_t), _widened(right, right_t)
    return left, right, left_t, right_t, _held_by(as_tensor_affine_type(type_map[expr]), left_t)


def _widened(value: RelayExpr, ty: TensorAffineType) -> tuple[RelayExpr, TensorAffineType]:
    if ty.dtype == "int32":
        return value, ty
    return relay.cast(value, "int32"), TensorAffineType(ty.scale, ty.zero_point, "int32", ty.axis)


def _held_by(asked: TensorAffineType, left: TensorAffineType) -> TensorAffineType:
    """*asked* in the dtype of *left*: the same numbers in bytes of the other sign; products keep their units."""
    same = asked.dtype == left.dtype
    in_bytes = {asked.dtype, left.dtype} == {"int8", "uint8"}
    return held_in(asked, left.dtype) if same or in_bytes or is_per_axis(left) else left


def _quantized_like(value: RelayExpr, ty: TensorAffineType) -> RelayExpr:
    if not isinstance(value, Constant):
        raise UserError("an input must be quantized or a constant")
    axis = -1 if not is_per_axis(ty) else ty.axis
    return qnn.op.quantize(value, ty.scale, ty.zero_point, out_dtype=ty.dtype, axis=axis)


def _quantized_constant(value: RelayExpr, other: TensorAffineType) -> tuple[RelayExpr, TensorAffineType]:
    """A constant in the units of the other operand, or in units of its own where it would leave their range."""
    like = _quantized_like(value, other)
    assert isinstance(value, Constant)
    numbers = value.data.numpy().astype(np.float64)
    if is_per_axis(other):
        if numbers.size != 1:
            raise UserError("a constant of several numbers meets several scales")
    elif _in_range(numbers, other):
        return like, other
    info = np.iinfo("int8" if other.dtype == "int8" else "uint8")
    low, high = min(float(numbers.min()), 0.0), max(float(numbers.max()), 0.0)
    scale = np.float32((high - low) / 255 or 1.0)
    zero = int(np.clip(np.rint(-low / scale) + info.min, info.min, info.max))
    own = TensorAffineType(constant(scale), constant(zero), other.dtype)
    return _quantized_like(value, own), own


def _in_range(numbers: np.ndarray, ty: TensorAffineType) -> bool:
    scale, zero = fold_constant(ty.scale), fold_constant(ty.zero_point)
    if not (isinstance(scale, Constant) and isinstance(zero, Constant)):
        return True
    info = np.iinfo(ty.dtype)
    places = np.rint(numbers / scale.data.numpy().reshape(()) + zero.data.numpy().reshape(()))
    return bool(((places >= info.min) & (places <= info.max)).all())


def _check_one_scale(ty: TensorAffineType) -> None:
    if is_per_axis(ty):
        raise UserError("the result must have one scale and one zero point")


def register_binary_qnn(op_name: str, op: Callable[..., Call]) -> object:
    """Turn the arithmetic operator *op_name* into the quantized one that *op* builds."""
    plain = getattr(relay, op_name)

    def binary(expr: Call, type_map: TypeMap) -> Result:
        left, right, left_t, right_t, out_t = get_binary_types(expr, type_map)
        sums_of_products = (
            OPS[op_name].traits.scaling is Scaling.SUM
            and left_t.dtype == "int32"
            and same_numbers(left_t, right_t)
            and _is_zero(left_t.zero_point)
            and not is_per_axis(left_t)
        )
        if sums_of_products:
            return [plain(left, right), left_t]
        _check_one_scale(out_t)
        parameters = (left_t.scale, left_t.zero_point, right_t.scale, right_t.zero_point)
        out = op(left, right, *parameters, out_t.scale, out_t.zero_point, left_t.axis, right_t.axis)
        return [out, TensorAffineType(out_t.scale, out_t.zero_point, left_t.dtype, out_t.axis)]

    return register(op_name, binary)


def _is_zero(zero: RelayExpr) -> bool:
    zero = fold_constant(zero)
    return isinstance(zero, Constant) and not zero.data.numpy().any()


for _name, _builder in (("add", qnn.op.add), ("subtract", qnn.op.subtract), ("multiply", qnn.op.mul)):
    register_binary_qnn(_name, _builder)


def requantized_to(value: RelayExpr, ty: TensorAffineType, out: TensorAffineType) -> RelayExpr:
    """*value* as what *out* says; itself where it is that already."""
    if same_numbers(ty, out):
        return value
    return qnn.op.requantize(
        value, ty.scale, ty.zero_point, out.scale, out.zero_point, out_dtype=out.dtype, axis=ty.axis
    )


def register_binary_identity(op_name: str, op: Callable[[RelayExpr, RelayExpr], Call]) -> object:
    """Say that operator *op_name* chooses between two numbers: both are brought to the type of the result."""

    def identity(expr: Call, type_map: TypeMap) -> Result:
        left, right, left_t, right_t, out_t = get_binary_types(expr, type_map)
        if not same_numbers(left_t, right_t):
            _check_one_scale(out_t)
        elif is_per_axis(left_t):
            out_t = left_t
        return [op(requantized_to(left, left_t, out_t), requantized_to(right, right_t, out_t)), out_t]

    return register(op_name, identity)


for _name in OPS:
    if OPS[_name].traits.is_pointwise and OPS[_name].traits.chooses:
        register_binary_identity(_name, getattr(relay, _name))


@register("where")
def where(expr: Call, type_map: TypeMap) -> Result:
    """A constant condition chooses between two tensors, both brought to the type of the result."""
    condition, x, y = expr.args
    out_t = type_map[expr]
    assert isinstance(out_t, TensorAffineType)
    sides = []
    for side in (x, y):
        ty = type_map.get(side)
        if ty is None:
            sides.append(_quantized_like(side, out_t))
        else:
            sides.append(requantized_to(side, as_tensor_affine_type(ty), out_t))
    return [relay.where(condition, *sides), out_t]


def register_unary_qnn(op_name: str, op: Callable[..., Call]) -> object:
    """Turn the function *op_name* of each element into the quantized one that *op* builds."""

    def unary(expr: Call, type_map: TypeMap) -> Result:
        arg = expr.args[0]
        x_t, out_t = type_map[arg], type_map[expr]
        assert isinstance(x_t, TensorAffineType) and isinstance(out_t, TensorAffineType)
        out_t = held_in(out_t, x_t.dtype)
        out = op(arg, x_t.scale, x_t.zero_point, out_t.scale, out_t.zero_point)
        return [out, out_t]

    return register(op_name, unary)


for _name in [name for name in OPS if f"qnn.{name}" in OPS]:
    if OPS[_name].traits.is_pointwise and OPS[_name].num_inputs == 1:
        register_unary_qnn(_name, getattr(qnn.op, _name))


@register_optional("nn.softmax")
def softmax(expr: Call, type_map: TypeMap) -> Result:
    """``qnn.softmax``, where it is asked for by name."""
    arg = expr.args[0]
    x_t, out_t = type_map[arg], type_map[expr]
    assert isinstance(x_t, TensorAffineType) and isinstance(out_t, TensorAffineType)
    out_t = held_in(out_t, x_t.dtype)
    out = qnn.op.softmax(arg, x_t.scale, x_t.zero_point, out_t.scale, out_t.zero_point, **expr.attrs)
    return [out, out_t]


@register("nn.leaky_relu")
def leaky_relu(expr: Call, type_map: TypeMap) -> Result:
    """``qnn.leaky_relu``."""
    arg = expr.args[0]
    x_t, out_t = type_map[arg], type_map[expr]
    assert isinstance(x_t, TensorAffineType) and isinstance(out_t, TensorAffineType)
    out_t = held_in(out_t, x_t.dtype)
    alpha = expr.attrs["alpha"]
    out = qnn.op.leaky_relu(arg, alpha, x_t.scale, x_t.zero_point, out_t.scale, out_t.zero_point)
    return [out, out_t]


@register("nn.relu")
def relu(expr: Call, type_map: TypeMap) -> Result:
    """The greater of each integer and the zero point."""
    arg = expr.args[0]
    ty = type_map[arg]
    assert isinstance(ty, TensorAffineType)
    zero = fold_constant(relay.cast(along_axis(ty.zero_point, ty, tensor_type(arg).ndim), ty.dtype))
    return [relay.maximum(arg, zero), ty]


@register("clip")
def clip(expr: Call, type_map: TypeMap) -> Result:
    """Integers kept between those of both bounds."""
    arg = expr.args[0]
    ty = type_map[arg]
    assert isinstance(ty, TensorAffineType)
    bounds = [expr.attrs["a_min"], expr.attrs["a_max"]]
    scale, zero = fold_constant(ty.scale), fold_constant(ty.zero_point)
    if isinstance(scale, Constant) and isinstance(zero, Constant) and not is_per_axis(ty):
        s, z = scale.data.numpy().reshape(()), zero.data.numpy().reshape(())
        low, high = (float(np.rint(np.float32(b) / s + z.astype(np.float32))) for b in bounds)
        return [relay.clip(arg, low, high), ty]
    ndim = tensor_type(arg).ndim
    low_q, high_q = (_bound(float(b), scale, zero, ty, ndim) for b in bounds)
    return [relay.minimum(relay.maximum(arg, low_q), high_q), ty]


def _bound(bound: float, scale: RelayExpr, zero: RelayExpr, ty: TensorAffineType, ndim: int) -> RelayExpr:
    """The integers of *bound*, one for each scale, shaped to broadcast along their axis."""
    count = max(int(np.prod(tensor_type(p).concrete_shape)) for p in (scale, zero))
    numbers = constant(np.full(count, bound, "float32"))
    return along_axis(fold_constant(qnn.op.quantize(numbers, scale, zero, 0, ty.dtype)), ty, ndim)
