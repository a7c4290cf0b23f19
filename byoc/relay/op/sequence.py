"""Sequences: lists of tensors whose length is known only when a model runs, as ONNX has them.

``Sequence[T]`` is a data type without constructors, of these operators alone; ``T`` is the type of every element, a
size that differs from element to element being unknown in it, and the empty tuple where no element is known yet.
Nothing is changed in place. An optional is a sequence of at most one element. ``AnyRank[T]`` is a tensor of the dtype
of the scalar ``T`` whose rank only the run knows, kept as a sequence of it alone; a model may give it, nothing computes
with it. They stand in functions that the virtual
machine runs, which moves elements without a copy. Source: ONNX's Sequence operators (opset 11) and scan outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.op import register_op
from byoc.ir.op_parts import Inputs
from byoc.ir.traits import OpKind, Traits
from byoc.ir.types import Any, GlobalTypeVar, TensorType, TupleType, Type, TypeCall
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.type_relations import normalize_axis, tensor_arg

SEQUENCE = GlobalTypeVar("Sequence")
OPTIONAL = GlobalTypeVar("Optional")
ANY_RANK = GlobalTypeVar("AnyRank")
_NAMES = (SEQUENCE.name_hint, OPTIONAL.name_hint, ANY_RANK.name_hint)
UNKNOWN = TupleType(())  # the element of a sequence of which nothing is known
MOVES = Traits(OpKind.SEQUENCE)


@dataclass(frozen=True)
class ConcatAttrs(Attrs):
    """Attributes of ``sequence.concat``: the elements are joined along *axis*, with *new_axis* along one of its own.

    *empty* is the dtype of what an empty sequence gives, and then its sizes.
    """

    axis: int = 0
    new_axis: bool = False
    empty: tuple[str, ...] = ()


@dataclass(frozen=True)
class SequenceSplitAttrs(Attrs):
    """Attributes of ``sequence.split``: along *axis*, which parts of size 1 keep with *keepdims*."""

    axis: int = 0
    keepdims: bool = True


@dataclass(frozen=True)
class LeadingAttrs(Attrs):
    """Attributes of ``sequence.leading``: along *axis* there are as many as the shape says, along others as before."""

    axis: int = 0


@dataclass(frozen=True)
class UnwrapAttrs(Attrs):
    """Attributes of ``sequence.unwrap``: the tensors inside, unknown sizes as -1, and the types around, inner first.

    Without a *dtype* nothing is known of the elements.
    """

    shape: tuple[int, ...] = ()
    dtype: str = "float32"
    around: tuple[str, ...] = (SEQUENCE.name_hint,)


def sequence_of(element: Type) -> TypeCall:
    """The type of sequences whose elements are of type *element*."""
    return TypeCall(SEQUENCE, (element,))


def element_of(ty: Type) -> Type | None:
    """The type of the elements of a sequence; None for another type."""
    if isinstance(ty, TypeCall) and isinstance(ty.func, GlobalTypeVar) and ty.func.name_hint in _NAMES:
        return ty.args[0]
    return None


def is_optional(ty: Type) -> bool:
    """True for the type of an optional."""
    return _is_of(ty, OPTIONAL)


def is_any_rank(ty: Type) -> bool:
    """True for the type of a tensor whose rank only the run knows."""
    return _is_of(ty, ANY_RANK)


def _is_of(ty: Type, kind: GlobalTypeVar) -> bool:
    return isinstance(ty, TypeCall) and isinstance(ty.func, GlobalTypeVar) and ty.func.name_hint == kind.name_hint


def joined_element(first: Type, second: Type) -> Type | None:
    """The type of what is of one type or the other: sizes that differ are unknown; None where nothing holds both."""
    if UNKNOWN in (first, second):
        return second if first == UNKNOWN else first
    inner = element_of(first), element_of(second)
    if inner[0] is not None and inner[1] is not None:
        both = joined_element(inner[0], inner[1])
        assert isinstance(first, TypeCall) and isinstance(second, TypeCall)
        return TypeCall(first.func, (both,)) if both is not None and first.func == second.func else None
    if not isinstance(first, TensorType) or not isinstance(second, TensorType):
        return first if first == second else None
    if first.dtype != second.dtype or first.ndim != second.ndim:
        return None
    return TensorType([a if a == b else Any() for a, b in zip(first.shape, second.shape, strict=True)], first.dtype)


def _element(types: Sequence[Type]) -> Type:
    element = element_of(types[0])
    if element is None:
        raise TypeInferenceError(f"a sequence is expected, got {types[0]}")
    return element


def _position(types: Sequence[Type], index: int) -> None:
    if tensor_arg(types, index, "position").ndim or not tensor_arg(types, index).dtype.startswith(("int", "uint")):
        raise TypeInferenceError(f"a position is an integer without dimensions, got {types[index]}")


def _insert_rel(types: Sequence[Type], attrs: None) -> Type:
    if len(types) > 2:
        _position(types, 2)
    both = joined_element(_element(types), types[1])
    if both is None:
        raise TypeInferenceError(
            f"the elements of a sequence have one dtype and one rank, got {types[0]} and {types[1]}"
        )
    return sequence_of(both)


def _at_rel(types: Sequence[Type], attrs: None) -> Type:
    _position(types, 1)
    element = _element(types)
    if element == UNKNOWN:
        raise TypeInferenceError("the type of the elements of an empty sequence is not known")
    return element


def _erase_rel(types: Sequence[Type], attrs: None) -> Type:
    _position(types, 1)
    return sequence_of(_element(types))


def _any_rank_rel(types: Sequence[Type], attrs: None) -> Type:
    return TypeCall(ANY_RANK, (TensorType((), tensor_arg(types, 0).dtype),))


def _length_rel(types: Sequence[Type], attrs: None) -> Type:
    _element(types)
    return TensorType((), "int64")


def _concat_rel(types: Sequence[Type], attrs: ConcatAttrs) -> Type:
    element = _element(types)
    if not isinstance(element, TensorType):
        raise TypeInferenceError(f"only tensors of a known rank can be joined, got a sequence of {element}")
    axis = normalize_axis(attrs.axis, element.ndim + attrs.new_axis)
    shape = list(element.shape)
    if attrs.new_axis:
        shape.insert(axis, Any())
    else:
        shape[axis] = Any()
    return TensorType(shape, element.dtype)


def _split_rel(types: Sequence[Type], attrs: SequenceSplitAttrs) -> Type:
    data = tensor_arg(types, 0)
    axis = normalize_axis(attrs.axis, data.ndim)
    shape = list(data.shape)
    shape[axis] = 1 if len(types) == 1 else Any()
    if len(types) == 1 and not attrs.keepdims:
        del shape[axis]
    return sequence_of(TensorType(shape, data.dtype))


def _leading_rel(types: Sequence[Type], attrs: LeadingAttrs) -> Type:
    data, shape = tensor_arg(types, 0), tensor_arg(types, 1, "shape")
    axis = normalize_axis(attrs.axis, data.ndim)
    if shape != TensorType([data.ndim], "int64"):
        raise TypeInferenceError(f"the shape is a tensor of {data.ndim} int64, got {shape}")
    return TensorType([*data.shape[:axis], Any(), *data.shape[axis + 1 :]], data.dtype)


def _unwrap_rel(types: Sequence[Type], attrs: UnwrapAttrs) -> Type:
    tensor_arg(types, 0)
    element: Type = UNKNOWN
    if attrs.dtype:
        element = TensorType([Any() if d < 0 else d for d in attrs.shape], attrs.dtype)
    for name in attrs.around:
        element = TypeCall(OPTIONAL if name == OPTIONAL.name_hint else SEQUENCE, (element,))
    return element


def _wrap_rel(types: Sequence[Type], attrs: None) -> Type:
    _element(types)
    return TensorType((Any(),), "string")


register_op(
    "sequence.unwrap",
    inputs=("data",),
    attrs=UnwrapAttrs,
    rel=_unwrap_rel,
    doc="The sequence whose elements a vector of objects holds, as a graph passes it on.",
    traits=MOVES,
)
register_op(
    "sequence.wrap",
    inputs=("sequence",),
    rel=_wrap_rel,
    doc="A vector of objects that holds the elements of a sequence.",
    traits=MOVES,
)
register_op(
    "sequence.any_rank",
    inputs=("data",),
    rel=_any_rank_rel,
    doc="A tensor without its rank in its type, which a model gives where the run decides between tensors.",
    traits=MOVES,
)
register_op(
    "sequence.empty",
    inputs=(),
    rel=lambda types, attrs: sequence_of(UNKNOWN),
    doc="A sequence of no elements.",
    traits=MOVES,
)
register_op(
    "sequence.insert",
    inputs=Inputs(("sequence", "element", "position"), variadic=True),
    rel=_insert_rel,
    doc="A sequence with one more element before a position, or at the end.",
    traits=MOVES,
)
register_op(
    "sequence.erase",
    inputs=("sequence", "position"),
    rel=_erase_rel,
    doc="A sequence without the element at a position.",
    traits=MOVES,
)
register_op("sequence.at", inputs=("sequence", "position"), rel=_at_rel, doc="The element at a position.", traits=MOVES)
register_op(
    "sequence.length", inputs=("sequence",), rel=_length_rel, doc="The number of elements, int64.", traits=MOVES
)
register_op(
    "sequence.concat",
    inputs=("sequence",),
    attrs=ConcatAttrs,
    rel=_concat_rel,
    doc="The elements joined along an axis of theirs, or a new one.",
    traits=MOVES,
)
register_op(
    "sequence.split",
    inputs=Inputs(("data", "split"), variadic=True),
    attrs=SequenceSplitAttrs,
    rel=_split_rel,
    doc="The parts of a tensor along an axis: of one size, of sizes that are given, or of size 1.",
    traits=MOVES,
)
register_op(
    "sequence.leading",
    inputs=("data", "shape"),
    attrs=LeadingAttrs,
    rel=_leading_rel,
    doc="The first elements of a tensor, in the order of memory, as a tensor of a shape that the run says.",
    traits=MOVES,
)


def unwrap(data: Operand, ty: Type) -> Call:
    """The sequence or optional of type *ty* whose elements *data*, a vector of objects, holds."""
    around: list[str] = []
    while isinstance(ty, TypeCall) and isinstance(ty.func, GlobalTypeVar):
        around.insert(0, ty.func.name_hint)
        ty = ty.args[0]
    known = ty if isinstance(ty, TensorType) else TensorType((), "float32")
    shape = tuple(int(d) if isinstance(d, int) else -1 for d in known.shape)
    dtype = known.dtype if isinstance(ty, TensorType) else ""
    return make_call("sequence.unwrap", [as_expr(data)], UnwrapAttrs(shape, dtype, tuple(around)))


def wrap(sequence: Operand) -> Call:
    """A vector of objects that holds the elements of *sequence*."""
    return make_call("sequence.wrap", [as_expr(sequence)], None)


def any_rank(data: Operand) -> Call:
    """``T[...] -> AnyRank[T]``: *data* without its rank in its type."""
    return make_call("sequence.any_rank", [as_expr(data)], None)


def empty() -> Call:
    """A sequence without elements."""
    return make_call("sequence.empty", [], None)


def insert(sequence: Operand, element: Operand, position: Operand | None = None) -> Call:
    """*sequence* with *element* before *position*, which may count from the end; at the end where it is None."""
    args = [sequence, element] if position is None else [sequence, element, position]
    return make_call("sequence.insert", [as_expr(a) for a in args], None)


def erase(sequence: Operand, position: Operand) -> Call:
    """*sequence* without the element at *position*."""
    return make_call("sequence.erase", [as_expr(sequence), as_expr(position)], None)


def at(sequence: Operand, position: Operand) -> Call:
    """The element of *sequence* at *position*, which may count from the end."""
    return make_call("sequence.at", [as_expr(sequence), as_expr(position)], None)


def length(sequence: Operand) -> Call:
    """The number of elements of *sequence*, ``int64``."""
    return make_call("sequence.length", [as_expr(sequence)], None)


def concat(sequence: Operand, axis: int = 0, new_axis: bool = False, empty: TensorType | None = None) -> Call:
    """The elements of *sequence* joined along *axis*, or with *new_axis* along a new one there.

    *empty* is the type of an element, for a sequence that has none: what is unknown in it is then 0.
    """
    known = () if empty is None else (empty.dtype, *(str(d) if isinstance(d, int) else "0" for d in empty.shape))
    return make_call("sequence.concat", [as_expr(sequence)], ConcatAttrs(axis, new_axis, known))


def split(data: Operand, sizes: Operand | None = None, axis: int = 0, keepdims: bool = True) -> Call:
    """The parts of *data* along *axis*: each of the size *sizes*, or of the sizes in it; of size 1 where it is None.

    Without *keepdims* parts of size 1 lose the axis.
    """
    args = [as_expr(data)] if sizes is None else [as_expr(data), as_expr(sizes)]
    return make_call("sequence.split", args, SequenceSplitAttrs(axis, keepdims))


def leading(data: Operand, shape: Operand, axis: int) -> Call:
    """``T[..., n, ...], int64[rank] -> T[..., ?, ...]``: the first elements of *data* as a tensor of *shape*.

    *axis* is the one along which the shape may differ.
    """
    return make_call("sequence.leading", [as_expr(data), as_expr(shape)], LeadingAttrs(axis))
