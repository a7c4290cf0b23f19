"""Operators that make tensors from a shape, and those that ask for one. Source: ``relay/op/tensor/transform.cc``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc import te
from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs, written
from byoc.ir.op import OPS, ComputeOf, OpPattern, Sample, register_op
from byoc.ir.traits import Conversion, OpKind, Traits, creation
from byoc.ir.types import Any, TensorType, Type
from byoc.relay.expr import Call, Constant, check_expr
from byoc.relay.op.core.builder import Operand, as_expr, constant_ints, in_dtype_of, known_dtype, make_call
from byoc.relay.op.core.indexing import as_index, size_of
from byoc.relay.op.core.known_shapes import FKNOWN_SHAPE, arange_shape
from byoc.relay.op.core.named_dims import named_dim
from byoc.relay.op.core.type_relations import identity, is_integer, normalize_axis, same_dtype, tensor_arg


@dataclass(frozen=True)
class InitOpAttrs(Attrs):
    """Attributes of the operators that make a tensor of a shape; an empty dtype is that of the value."""

    shape: tuple[int, ...] = written(())
    dtype: str = written("float32", left_out="")


@dataclass(frozen=True)
class DynInitAttrs(InitOpAttrs):
    """Attributes of operators whose shape is an input: of the result what is *known*, as ``match_shape`` has it."""

    known: tuple[str, ...] = ()


@dataclass(frozen=True)
class ArangeAttrs(Attrs):
    """Attributes of ``arange``; the bounds are inputs, and stand here too where they are known when compiling.

    *known* is the size of the result where that is known by name, as ``match_shape`` has it.
    """

    start: float | None = None
    stop: float | None = None
    step: float | None = None
    dtype: str = written("float32", left_out="")
    known: tuple[str, ...] = ()


@dataclass(frozen=True)
class OneHotAttrs(Attrs):
    """Attributes of ``one_hot``."""

    depth: int = 1
    axis: int = -1
    dtype: str = written("float32", left_out="")


@dataclass(frozen=True)
class ShapeOfAttrs(Attrs):
    """Attributes of ``shape_of``."""

    dtype: str = written("int32", left_out="")


@dataclass(frozen=True)
class NdarraySizeAttrs(Attrs):
    """Attributes of ``ndarray_size``."""

    dtype: str = written("int32", left_out="")


def _init_rel(types: Sequence[Type], attrs: InitOpAttrs) -> TensorType:
    if any(d < 0 for d in attrs.shape):
        raise TypeInferenceError(f"a shape has no negative dimension, got {attrs.shape}")
    return TensorType(attrs.shape, attrs.dtype)


def _filled(value: int, ty: TensorType, name: str) -> te.Tensor:
    number = float(value) if "float" in ty.dtype else bool(value) if ty.dtype == "bool" else value
    return te.compute(te.shape_of(ty), lambda *i: te.const(number, ty.dtype), name)


def _fill(value: int, name: str) -> ComputeOf[Attrs | None, te.Tensor, TensorType]:
    def compute(attrs: Attrs | None, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
        return [_filled(value, out_type, name)]

    return compute


def no_operations(attrs: Attrs | None, in_types: Sequence[Type], out_type: Type) -> int:
    """The cost of an operator that computes nothing."""
    return 0


for _name, _value in (("zeros", 0), ("ones", 1)):
    register_op(
        _name,
        inputs=(),
        attrs=InitOpAttrs,
        rel=_init_rel,
        pattern=OpPattern.ELEMWISE,
        traits=creation(fill=_value),
        operations=no_operations,
        compute=_fill(_value, _name),
        doc=f"A tensor of {_name}.",
        samples=(
            Sample([], {"shape": (2, 3)}),
            Sample([], {"shape": (), "dtype": "int64"}),
            Sample([], {"shape": (3,), "dtype": "bool"}),
        ),
    ).set_support_level(3)
    register_op(
        f"{_name}_like",
        inputs=("data",),
        rel=identity,
        pattern=OpPattern.ELEMWISE,
        traits=creation(fill=_value),
        operations=no_operations,
        compute=_fill(_value, _name),
        doc=f"A tensor of {_name} in the shape and dtype of another.",
        samples=(Sample([(2, 3)]), Sample([(4,)], dtype="int32"), Sample([(4,)], dtype="bool")),
    ).set_support_level(1)


def zeros(shape: object, dtype: str) -> Call:
    """Zeros of *shape*, which may be a tensor known at run time. Source: ``relay.zeros``."""
    return _make_filled("zeros", [], shape, dtype)


def ones(shape: object, dtype: str) -> Call:
    """Ones of *shape*, which may be a tensor known at run time. Source: ``relay.ones``."""
    return _make_filled("ones", [], shape, dtype)


def _make_filled(name: str, args: list[Operand], shape: object, dtype: str) -> Call:
    numbers = constant_ints(shape)
    inputs = [as_expr(a) for a in args]
    if numbers is None:
        return make_call(f"dyn.{name}", [*inputs, check_expr(shape, "a shape")], DynInitAttrs((), dtype))
    return make_call(name, inputs, InitOpAttrs(in_dtype_of(shape, numbers), dtype))


def zeros_like(data: Operand) -> Call:
    """Zeros in the shape and dtype of *data*. Source: ``relay.zeros_like``."""
    return make_call("zeros_like", [as_expr(data)])


def ones_like(data: Operand) -> Call:
    """Ones in the shape and dtype of *data*. Source: ``relay.ones_like``."""
    return make_call("ones_like", [as_expr(data)])


def _scalar(types: Sequence[Type], index: int, name: str) -> TensorType:
    ty = tensor_arg(types, index, name)
    if ty.shape not in ((), (1,)):
        raise TypeInferenceError(f"{name} must be a scalar, got {ty}")
    return ty


def full_rel(types: Sequence[Type], attrs: InitOpAttrs) -> TensorType:
    """A tensor of the attributes' shape, and of their dtype or the fill value's."""
    value = _scalar(types, 0, "fill_value")
    return TensorType(_init_rel(types, InitOpAttrs(attrs.shape)).shape, attrs.dtype or value.dtype)


def _value_of(tensor: te.Tensor) -> te.PrimExpr:
    return tensor[(0,) * tensor.ndim]


def _full_compute(attrs: InitOpAttrs, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
    return full_of(inputs[0], out_type)


def full_of(fill_value: te.Tensor, out_type: TensorType) -> list[te.Tensor]:
    """A tensor of the type of the result whose every element is one scalar."""
    value = te.cast(out_type.dtype, _value_of(fill_value))
    return [te.compute(te.shape_of(out_type), lambda *i: value, "full")]


register_op(
    "full",
    inputs=("fill_value",),
    attrs=InitOpAttrs,
    rel=full_rel,
    pattern=OpPattern.ELEMWISE,
    traits=creation(value_operand=0),
    operations=no_operations,
    compute=_full_compute,
    doc="A tensor whose every element is one scalar.",
    samples=(Sample([()], {"shape": (2, 3), "dtype": ""}), Sample([np.array([3], "int64")], {"shape": (4,)})),
).set_support_level(3)


def full(fill_value: Operand, shape: object = (), dtype: str = "") -> Call:
    """A tensor of *shape* (which may be a tensor) filled with a scalar. Source: ``relay.full``."""
    return _make_filled("full", [as_expr(fill_value)], shape, dtype)


def _full_like_rel(types: Sequence[Type], attrs: Attrs | None) -> Type:
    _scalar(types, 1, "fill_value")
    return tensor_arg(types, 0)


def _full_like_compute(attrs: Attrs | None, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
    return full_of(inputs[1], out_type)


register_op(
    "full_like",
    inputs=("data", "fill_value"),
    rel=_full_like_rel,
    pattern=OpPattern.ELEMWISE,
    traits=creation(value_operand=1),
    operations=no_operations,
    compute=_full_like_compute,
    doc="A tensor in the shape and dtype of another, whose every element is one scalar.",
    samples=(Sample([(2, 3), ()]), Sample([(4,), np.array(3, "int32")], dtype="int32")),
).set_support_level(3)


def full_like(data: Operand, fill_value: Operand) -> Call:
    """A tensor like *data* filled with a scalar. Source: ``relay.full_like``."""
    return make_call("full_like", [as_expr(data), as_expr(fill_value, known_dtype(data))])


def _arange_rel(types: Sequence[Type], attrs: ArangeAttrs) -> Type:
    for k, name in enumerate(("start", "stop", "step")):
        _scalar(types, k, name)
    if attrs.start is None or attrs.stop is None or attrs.step is None:
        return TensorType([named_dim(d) for d in attrs.known] or [Any()], attrs.dtype)
    if attrs.step == 0:
        raise TypeInferenceError("the step must not be 0")
    return TensorType([max(0, math.ceil((attrs.stop - attrs.start) / attrs.step))], attrs.dtype)


def _arange_compute(attrs: ArangeAttrs, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
    dtype = out_type.dtype
    start, step = (te.cast(dtype, _value_of(inputs[k])) for k in (0, 2))
    return [te.compute(te.shape_of(out_type), lambda i: start + te.cast(dtype, i) * step, "arange")]


def _bounds(start: float, stop: float, step: float, dtype: str) -> Sample:
    return Sample(
        [np.array(v, dtype) for v in (start, stop, step)], {"start": start, "stop": stop, "step": step, "dtype": dtype}
    )


register_op(
    "arange",
    inputs=("start", "stop", "step"),
    attrs=ArangeAttrs,
    rel=_arange_rel,
    pattern=OpPattern.INJECTIVE,
    traits=creation(Conversion.NEVER),
    compute=_arange_compute,
    doc="Evenly spaced numbers in [start, stop).",
    samples=(
        _bounds(0, 5, 1, "float32"),
        _bounds(7, -2, -3, "int64"),
        _bounds(3, 3, 1, "int32"),
        _bounds(0.5, 2.0, 0.25, "float32"),
    ),
).set_support_level(3)


OPS["arange"].set_attr(FKNOWN_SHAPE, arange_shape)


def _known_number(value: Operand) -> float | None:
    if isinstance(value, Constant):
        value = value.data.numpy().reshape(()).item()
    return value if isinstance(value, (int, float)) else None


def arange(start: Operand, stop: Operand | None = None, step: Operand | None = None, dtype: str = "float32") -> Call:
    """Numbers from *start* to *stop* by *step*; one bound alone is the stop. Source: ``relay.arange``."""
    if stop is None:
        start, stop = 0, start
    bounds = (start, stop, 1 if step is None else step)
    numbers = [_known_number(b) for b in bounds]
    first, last, between = numbers if None not in numbers else (None, None, None)
    attrs = ArangeAttrs(first, last, between, dtype)
    return make_call("arange", [as_expr(b, dtype) for b in bounds], attrs)


def one_hot_rel(types: Sequence[Type], attrs: OneHotAttrs) -> Type:
    """The indices' shape with *depth* at *axis*; a depth below 0 is known only at run time."""
    indices = tensor_arg(types, 0, "indices")
    if not is_integer(indices.dtype):
        raise TypeInferenceError(f"indices must be integers, got {indices.dtype}")
    same_dtype([_scalar(types, 1, "on_value"), _scalar(types, 2, "off_value")])
    axis = normalize_axis(attrs.axis, indices.ndim + 1)
    depth = attrs.depth if attrs.depth >= 0 else Any()
    return TensorType((*indices.shape[:axis], depth, *indices.shape[axis:]), attrs.dtype)


def _one_hot_compute(attrs: OneHotAttrs, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
    indices, on_value, off_value = inputs
    axis, dtype = attrs.axis % out_type.ndim, out_type.dtype
    on, off = (te.cast(dtype, _value_of(t)) for t in (on_value, off_value))

    def element(*i: te.PrimExpr) -> te.PrimExpr:
        return te.if_then_else(te.cast("int64", indices[(*i[:axis], *i[axis + 1 :])]).equal(i[axis]), on, off)

    return [te.compute(te.shape_of(out_type), element, "one_hot")]


_ON, _OFF = np.array(1, "float32"), np.array(0, "float32")
register_op(
    "one_hot",
    inputs=("indices", "on_value", "off_value"),
    attrs=OneHotAttrs,
    rel=one_hot_rel,
    pattern=OpPattern.INJECTIVE,
    traits=Traits(OpKind.OTHER, inserts_axis=True),
    compute=_one_hot_compute,
    doc="A vector of *off_value* for each index, with *on_value* at that place; none where the index is outside.",
    samples=(
        Sample([np.array([0, 2, 1, 5, -1], "int32"), _ON, _OFF], {"depth": 3}),
        Sample([np.array([[0, 1]], "int64"), _ON, _OFF], {"depth": 2, "axis": 0, "dtype": "int32"}),
    ),
)


def one_hot(indices: Operand, on_value: Operand, off_value: Operand, depth: object, axis: int, dtype: str) -> Call:
    """One-hot vectors of *depth* (which may be a tensor) along *axis*. Source: ``relay.one_hot``."""
    inputs = [as_expr(indices), as_expr(on_value, dtype), as_expr(off_value, dtype)]
    number = constant_ints(depth)
    if number is None:
        return make_call("dyn.one_hot", [*inputs, check_expr(depth, "a depth")], OneHotAttrs(-1, axis, dtype))
    return make_call("one_hot", inputs, OneHotAttrs(number[0], axis, dtype))


def _shape_of_compute(attrs: ShapeOfAttrs, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
    data = inputs[0]

    def element(i: te.PrimExpr) -> te.PrimExpr:
        result = as_index(data.shape[-1]) if data.ndim else as_index(0)
        for k in range(data.ndim - 2, -1, -1):
            result = te.if_then_else(i.equal(k), as_index(data.shape[k]), result)
        return te.cast(out_type.dtype, result)

    return [te.compute((data.ndim,), element, "shape_of")]


register_op(
    "shape_of",
    inputs=("data",),
    attrs=ShapeOfAttrs,
    pattern=OpPattern.OPAQUE,
    traits=creation(gives_shape=True),
    operations=no_operations,
    rel=lambda types, attrs: TensorType([tensor_arg(types, 0).ndim], attrs.dtype),
    compute=_shape_of_compute,
    doc="The shape of a tensor, as a vector.",
    samples=(Sample([(2, 3, 4)], {"dtype": "int64"}), Sample([()]), Sample([(5,)])),
)


def shape_of(data: Operand, dtype: str = "int32") -> Call:
    """The shape of *data* as a vector. Source: ``relay.shape_of``."""
    return make_call("shape_of", [as_expr(data)], ShapeOfAttrs(dtype))


def _ndarray_size_rel(types: Sequence[Type], attrs: NdarraySizeAttrs) -> Type:
    tensor_arg(types, 0)
    return TensorType((), attrs.dtype)


def _ndarray_size_compute(
    attrs: NdarraySizeAttrs, inputs: Sequence[te.Tensor], out_type: TensorType
) -> list[te.Tensor]:
    size = as_index(size_of(inputs[0].shape))
    return [te.compute((), lambda: te.cast(out_type.dtype, size), "ndarray_size")]


register_op(
    "ndarray_size",
    inputs=("data",),
    attrs=NdarraySizeAttrs,
    pattern=OpPattern.OPAQUE,
    traits=creation(),
    operations=no_operations,
    rel=_ndarray_size_rel,
    compute=_ndarray_size_compute,
    doc="The number of elements, as a scalar.",
    samples=(Sample([(2, 3, 4)]), Sample([()], {"dtype": "int64"})),
)


def ndarray_size(data: Operand, dtype: str = "int32") -> Call:
    """The number of elements of *data*. Source: ``relay.ndarray_size``."""
    return make_call("ndarray_size", [as_expr(data)], NdarraySizeAttrs(dtype))
