"""Reductions over axes. Source: ``relay/op/tensor/reduce.cc``.

*axis* is one axis, several, or None for all; *exclude* reduces over the others instead; *keepdims* leaves 1 where an
axis was. ``argmax`` and ``argmin`` give int32, and over several axes the position in the flattened ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from byoc import te
from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.op import ComputeOf, DtypePredicate, OpPattern, Sample, register_op
from byoc.ir.op_parts import Implementation
from byoc.ir.traits import Conversion, OpKind, Traits
from byoc.ir.types import Dim, TensorType, Type, tensor_types
from byoc.relay.expr import Call, Tuple
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.indexing import ZERO, as_index, size_of, split_index
from byoc.relay.op.core.type_relations import is_number, normalize_axes, only, tensor_arg
from byoc.relay.op.movement.broadcast import where
from byoc.relay.op.movement.create import zeros_like
from byoc.relay.op.pointwise.binary import add, subtract, truncated_divide
from byoc.relay.op.pointwise.elementwise import exp, isfinite, log, sqrt
from byoc.relay.tuple_wrapper import TupleWrapper

Axes = int | Sequence[int] | None


@dataclass(frozen=True)
class ReduceAttrs(Attrs):
    """Attributes of reductions; a single axis is a tuple of one, as in Relay."""

    axis: tuple[int, ...] | None = None
    keepdims: bool = False
    exclude: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.axis, int):
            object.__setattr__(self, "axis", (self.axis,))
        super().__post_init__()


@dataclass(frozen=True)
class ArgReduceAttrs(ReduceAttrs):
    """Attributes of ``argmax`` and ``argmin``."""

    select_last_index: bool = False


@dataclass(frozen=True)
class VarianceAttrs(ReduceAttrs):
    """Attributes of ``variance``: *unbiased* divides by the count less one."""

    unbiased: bool = False


def reduced_axes(attrs: ReduceAttrs, ndim: int) -> tuple[int, ...]:
    """The axes that are reduced over, in order. Raises TypeInferenceError for one outside the rank."""
    every = tuple(range(ndim))
    chosen = every if attrs.axis is None else normalize_axes(attrs.axis, ndim)
    if attrs.exclude:
        if attrs.axis is None:
            raise TypeInferenceError("exclude needs an axis")
        return tuple(k for k in every if k not in chosen)
    return tuple(sorted(chosen))


def reduced_shape(attrs: ReduceAttrs, shape: Sequence[Dim]) -> tuple[Dim, ...]:
    """The shape that is left of *shape*."""
    axes = reduced_axes(attrs, len(shape))
    if attrs.keepdims:
        return tuple(1 if k in axes else d for k, d in enumerate(shape))
    return tuple(d for k, d in enumerate(shape) if k not in axes)


def _relation(types: Sequence[Type], attrs: ReduceAttrs) -> Type:
    data = tensor_arg(types, 0)
    return TensorType(reduced_shape(attrs, data.shape), data.dtype)


def _position_relation(types: Sequence[Type], attrs: ReduceAttrs) -> Type:
    """Positions have the dtype of the first dimension, as in Relay."""
    data = tensor_arg(types, 0)
    first = data.shape[0] if data.shape else None
    return TensorType(reduced_shape(attrs, data.shape), getattr(first, "dtype", "int32"))


def _outer(attrs: ReduceAttrs, data: te.Tensor, index: Sequence[te.PrimExpr]) -> list[te.PrimExpr]:
    """The index along each axis that is kept, 0 along those that are reduced, from the index of the result."""
    axes = reduced_axes(attrs, data.ndim)
    if attrs.keepdims:
        return [ZERO if k in axes else i for k, i in enumerate(index)]
    kept = iter(index)
    return [ZERO if k in axes else next(kept) for k in range(data.ndim)]


Element = Callable[[Sequence[te.PrimExpr]], te.PrimExpr]


def _fold(kind: str, attrs: ReduceAttrs, data: te.Tensor, ty: TensorType, element: Element, name: str) -> te.Tensor:
    axes = reduced_axes(attrs, data.ndim)

    def body(*i: te.PrimExpr) -> te.PrimExpr:
        index = _outer(attrs, data, i)
        over = [te.reduce_axis(data.shape[k], f"r{k}") for k in axes]
        for k, axis in zip(axes, over, strict=True):
            index[k] = axis
        return getattr(te, kind)(element(index), over) if over else element(index)

    return te.compute(te.shape_of(ty), body, name)


def _compute(kind: str, name: str) -> ComputeOf[ReduceAttrs, te.Tensor, TensorType]:
    def compute(attrs: ReduceAttrs, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
        data = inputs[0]
        return [_fold(kind, attrs, data, out_type, lambda i: data[tuple(i)], name)]

    return compute


def _divided(total: te.Tensor, attrs: ReduceAttrs, data: te.Tensor, less: int, name: str) -> te.Tensor:
    count = as_index(size_of([data.shape[k] for k in reduced_axes(attrs, data.ndim)])) - less
    divisor = te.const(count.value, total.dtype) if isinstance(count, te.expr.Const) else te.cast(total.dtype, count)
    return te.compute(total.shape, lambda *i: truncated_divide(total[i], divisor), name)


def _mean(attrs: ReduceAttrs, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
    total = _compute("sum", "mean_sum")(attrs, inputs, out_type)[0]
    return [_divided(total, attrs, inputs[0], 0, "mean")]


def _variance(attrs: VarianceAttrs, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
    data, mean = inputs

    def squared(index: Sequence[te.PrimExpr]) -> te.PrimExpr:
        away = data[tuple(index)] - mean[tuple(ZERO if d == 1 else i for d, i in zip(mean.shape, index, strict=True))]
        return away * away

    total = _fold("sum", attrs, data, out_type, squared, "variance_sum")
    return [_divided(total, attrs, data, int(attrs.unbiased), "variance")]


def _extreme(kind: str, of_bools: str) -> ComputeOf[ReduceAttrs, te.Tensor, TensorType]:
    """The greatest or least element; of truth values that is whether any or all of them hold."""
    numbers, bools = _compute(kind, kind), _compute(of_bools, kind)

    def compute(attrs: ReduceAttrs, inputs: Sequence[te.Tensor], out_type: TensorType) -> Sequence[te.Tensor]:
        return (bools if inputs[0].dtype == "bool" else numbers)(attrs, inputs, out_type)

    return compute


def _arg_compute(kind: str) -> ComputeOf[ArgReduceAttrs, te.Tensor, TensorType]:
    def compute(attrs: ArgReduceAttrs, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
        data = inputs[0]
        axes = reduced_axes(attrs, data.ndim)
        inner = [data.shape[k] for k in axes]
        count = size_of(inner)

        def body(*i: te.PrimExpr) -> te.PrimExpr:
            index = _outer(attrs, data, i)
            over = te.reduce_axis(count, "r")
            position = as_index(count) - 1 - over if attrs.select_last_index else over
            for k, at in zip(axes, split_index(position, inner), strict=True):
                index[k] = at
            result: te.PrimExpr = getattr(te, kind)(data[tuple(index)], over)
            return result

        found = te.compute(te.shape_of(out_type), body, kind)

        def as_given(*i: te.PrimExpr) -> te.PrimExpr:
            position = as_index(count) - 1 - found[i] if attrs.select_last_index else found[i]
            return te.cast(out_type.dtype, position)

        return [te.compute(found.shape, as_given, f"{kind}_{out_type.dtype}")]

    return compute


def _elements(attrs: Attrs | None, in_types: Sequence[Type], out_type: Type) -> int:
    size = 1
    for dim in tensor_types(in_types[0])[0].shape:
        size *= dim if isinstance(dim, int) else 1
    return size


_SAMPLES = (
    Sample([(2, 3, 4)], {"axis": (1,)}),
    Sample([(2, 3, 4)], {"axis": (0, -1), "keepdims": True}),
    Sample([(2, 3)]),
    Sample([(2, 3, 4)], {"axis": 1, "exclude": True}),
    Sample([(3, 4)], {"axis": 0}, "int32", -9, 9),
)
_BOOLS = (Sample([(2, 3, 2)], {"axis": 1}, "bool"), Sample([(2, 3)], {"keepdims": True}, "bool"))
_number = only(is_number)
_ordered = only(lambda dtype: dtype != "string")
_bool = only(lambda dtype: dtype == "bool")


_CHOOSES = Traits(OpKind.REDUCTION, carries=(0,), chooses=True, precision=Conversion.FOLLOW)
_FOLLOWS = Traits(OpKind.REDUCTION, precision=Conversion.FOLLOW)
_SUMS = Traits(OpKind.REDUCTION, precision=Conversion.NEVER)
_LOGIC = Traits(OpKind.REDUCTION)


def _register(
    name: str,
    code_for: DtypePredicate,
    compute: ComputeOf[ReduceAttrs, te.Tensor, TensorType],
    doc: str,
    samples: Sequence[Sample],
    traits: Traits,
) -> None:
    register_op(
        name,
        inputs=("data",),
        attrs=ReduceAttrs,
        rel=_relation,
        compute=Implementation(compute, code_for=code_for),
        doc=doc,
        samples=samples,
        pattern=OpPattern.COMM_REDUCE,
        traits=traits,
        operations=_elements,
    ).set_support_level(4)


_register("sum", _number, _compute("sum", "sum"), "The sum over axes.", _SAMPLES, _SUMS)
_register("prod", _number, _compute("prod", "prod"), "The product over axes.", _SAMPLES, _SUMS)
_register(
    "max", _ordered, _extreme("max", "any"), "The greatest element over axes; NaN wins.", (*_SAMPLES, *_BOOLS), _CHOOSES
)
_register(
    "min", _ordered, _extreme("min", "all"), "The least element over axes; NaN wins.", (*_SAMPLES, *_BOOLS), _CHOOSES
)
_register("mean", _number, _mean, "The mean over axes; of integers rounded toward zero.", _SAMPLES, _SUMS)
_register("all", _bool, _compute("all", "all"), "True where all elements over axes are.", _BOOLS, _LOGIC)
_register("any", _bool, _compute("any", "any"), "True where any element over axes is.", _BOOLS, _LOGIC)

_ARG_SAMPLES = (
    *_SAMPLES,
    Sample([(4, 9)], {"axis": 1}, "int32", 0, 3),
    Sample([(4, 9)], {"axis": 1, "select_last_index": True}, "int32", 0, 3),
    Sample([(4, 9)], {"axis": 0, "keepdims": True, "select_last_index": True}),
)
for _kind in ("argmax", "argmin"):
    register_op(
        _kind,
        inputs=("data",),
        attrs=ArgReduceAttrs,
        rel=_position_relation,
        compute=Implementation(_arg_compute(_kind), code_for=_number),
        samples=_ARG_SAMPLES,
        doc=f"The position of the {'greatest' if _kind == 'argmax' else 'least'} element over axes, as int32.",
        pattern=OpPattern.COMM_REDUCE,
        traits=replace(_FOLLOWS, ranks=True),
        operations=_elements,
    ).set_support_level(4)


def _variance_rel(types: Sequence[Type], attrs: VarianceAttrs) -> Type:
    data, mean = tensor_arg(types, 0), tensor_arg(types, 1, "mean")
    if mean.dtype != data.dtype or mean.ndim != data.ndim:
        raise TypeInferenceError(f"the mean must have the dtype and rank of the data, got {mean} for {data}")
    sizes = [(m, d) for m, d in zip(mean.shape, data.shape, strict=True) if isinstance(m, int) and isinstance(d, int)]
    if [m for m, d in sizes if m not in (1, d)]:
        raise TypeInferenceError(f"the mean has the data's size or 1 along each axis, got {mean} for {data}")
    return _relation(types, attrs)


register_op(
    "variance",
    inputs=("data", "mean"),
    attrs=VarianceAttrs,
    rel=_variance_rel,
    compute=Implementation(_variance, code_for=_number),
    doc="The mean square distance from *mean*, of size 1, as means that kept their axes are, or the data's along each.",
    pattern=OpPattern.COMM_REDUCE,
    traits=Traits(OpKind.REDUCTION, precision=Conversion.NEVER),
    operations=lambda attrs, in_types, out_type: 3 * _elements(attrs, in_types, out_type),
    samples=(
        Sample([(2, 3, 4), (2, 1, 4)], {"axis": (1,)}),
        Sample([(2, 3), (1, 1)], {"keepdims": True, "unbiased": True}),
        Sample([(2, 3, 4), (1, 3, 4)], {"axis": (1,)}),
    ),
).set_support_level(4)


def _axis(axis: Axes) -> tuple[int, ...] | None:
    return axis if axis is None else (int(axis),) if isinstance(axis, int) else tuple(int(a) for a in axis)


ReduceBuilder = Callable[..., Call]


def _builder(name: str, doc: str) -> ReduceBuilder:
    def build(data: Operand, axis: Axes = None, keepdims: bool = False, exclude: bool = False) -> Call:
        return make_call(name, [as_expr(data)], ReduceAttrs(_axis(axis), keepdims, exclude))

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"{doc} Source: ``relay.{name}``."
    return build


sum = _builder("sum", "The sum over *axis*.")
prod = _builder("prod", "The product over *axis*.")
max = _builder("max", "The greatest element over *axis*; NaN wins.")
min = _builder("min", "The least element over *axis*; NaN wins.")
mean = _builder("mean", "The mean over *axis*.")
all = _builder("all", "True where all elements over *axis* are.")
any = _builder("any", "True where any element over *axis* is.")


def _arg_builder(name: str) -> ReduceBuilder:
    def build(
        data: Operand, axis: Axes = None, keepdims: bool = False, exclude: bool = False, select_last_index: bool = False
    ) -> Call:
        return make_call(name, [as_expr(data)], ArgReduceAttrs(_axis(axis), keepdims, exclude, select_last_index))

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"The int32 position of the first (or last) extreme element over *axis*. Source: ``relay.{name}``."
    return build


argmax, argmin = _arg_builder("argmax"), _arg_builder("argmin")


def variance(
    data: Operand,
    axis: Axes = None,
    keepdims: bool = False,
    exclude: bool = False,
    unbiased: bool = False,
    with_mean: Operand | None = None,
) -> Call:
    """The variance over *axis*, from *with_mean* (its reduced axes kept as 1) if given. Source: ``relay.variance``."""
    expr = as_expr(data)
    centre = mean(expr, axis, True, exclude) if with_mean is None else as_expr(with_mean)
    return make_call("variance", [expr, centre], VarianceAttrs(_axis(axis), keepdims, exclude, unbiased))


def std(
    data: Operand, axis: Axes = None, keepdims: bool = False, exclude: bool = False, unbiased: bool = False
) -> Call:
    """The standard deviation over *axis*. Source: ``relay.std``."""
    return sqrt(variance(data, axis, keepdims, exclude, unbiased))


def mean_variance(
    data: Operand, axis: Axes = None, keepdims: bool = False, exclude: bool = False, unbiased: bool = False
) -> TupleWrapper:
    """Mean and variance over *axis*. Source: ``relay.mean_variance``."""
    expr = as_expr(data)
    spread = variance(expr, axis, keepdims, exclude, unbiased)
    return TupleWrapper(Tuple([mean(expr, axis, keepdims, exclude), spread]), 2)


def mean_std(data: Operand, axis: Axes = None, keepdims: bool = False, exclude: bool = False) -> TupleWrapper:
    """Mean and standard deviation over *axis*. Source: ``relay.mean_std``."""
    expr = as_expr(data)
    return TupleWrapper(Tuple([mean(expr, axis, keepdims, exclude), std(expr, axis, keepdims, exclude)]), 2)


def logsumexp(data: Operand, axis: Axes = None, keepdims: bool = False) -> Call:
    """``log(sum(exp(data)))`` over *axis*, without overflow. Source: ``relay.logsumexp``."""
    expr = as_expr(data)
    total = sum(exp(subtract(expr, _finite(max(expr, axis, True)))), axis, keepdims)
    return add(_finite(max(expr, axis, keepdims)), log(total))


def _finite(highest: Call) -> Call:
    """*highest* with 0 where it is infinite: what is subtracted from an infinity leaves it as it is."""
    return where(isfinite(highest), highest, zeros_like(highest))
