"""SimplifyExpr's rules of shapes: reshapes, permutations and layouts in a row, joins and cuts of nothing, ``*_like``.

Two reorderings in a row, transposes or layout transforms, are one: a layout transform where blocks are cut or joined,
else a transpose. Source: ``SimplifyReshape``, ``SimplifyTranspose``, ``SimplifyNoOpTranspose``, ``Concretize*Like`` of
``src/relay/transforms/simplify_expr.cc``; the rest is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from byoc.ir.expr import RelayExpr
from byoc.ir.layout import Layout
from byoc.ir.op import Op
from byoc.ir.types import Any, TensorType
from byoc.relay import op as relay
from byoc.relay.analysis.operator_calls import calls, traits_of
from byoc.relay.expr import Call, Tuple, bind_span
from byoc.relay.narrowing import as_call, as_tensor_type, tensor_type, tuple_type
from byoc.relay.op.movement.shape import reshape
from byoc.relay.transform.base.call_rules import ByOperator
from byoc.relay.transform.simplify.rules import Rule, keeps_type, law, merged
from byoc.runtime.kernels.movement.layouts import NamedAxis


def _has_attribute(op: Op, name: str) -> bool:
    return op.attrs_type is not None and name in op.attrs_type.__dataclass_fields__


@law("a view of a view is one view")
def reshape_to(call: Call) -> RelayExpr | None:
    """A reshape of a reshape is one; a reshape to the same shape is none."""
    same = keeps_type(call)
    if same is not None:
        return same
    inner, result = call.args[0], call.checked_type
    if not isinstance(inner, Call) or not _is_view(inner) or not isinstance(result, TensorType) or 0 in result.shape:
        return None
    unknown = sum(isinstance(d, Any) for d in result.shape)
    if unknown > 1 or not result.is_symbolic:
        return None
    shape = tuple(-1 if isinstance(d, Any) else d for d in result.shape)
    return merged("reshape", [inner.args[0]], {"newshape": shape}, inner, call)


def _is_view(expr: RelayExpr) -> bool:
    traits = traits_of(expr)
    return traits is not None and traits.is_view


def _permutation(call: Call) -> tuple[int, ...] | None:
    """The order of axes that a transpose or a layout transform gives; None where blocks are cut, joined or inside."""
    if calls(call, "layout_transform"):
        src, dst = _layouts(call)
        places = tuple(src.parts.index(p) if p in src.parts else -1 for p in dst.parts)
        return places if sorted(places) == list(range(len(src))) else None
    ndim = tensor_type(call.args[0]).ndim
    axes = call.attrs["axes"]
    return tuple(a % ndim for a in axes) if axes else tuple(reversed(range(ndim)))


def _layouts(call: Call) -> tuple[Layout, Layout]:
    return Layout(str(call.attrs["src_layout"])), Layout(str(call.attrs["dst_layout"]))


def _transposed(data: RelayExpr, axes: tuple[int, ...], *sources: RelayExpr) -> RelayExpr:
    if axes == tuple(range(len(axes))):
        return data
    return merged("transpose", [data], {"axes": axes}, *sources)


def _transform(data: RelayExpr, src: list[NamedAxis], dst: list[NamedAxis], *sources: RelayExpr) -> RelayExpr:
    if src == dst:
        return data
    names = {"src_layout": Layout.of_axes(src).name, "dst_layout": Layout.of_axes(dst).name}
    return merged("layout_transform", [data], names, *sources)


@law("a reordering of a reordering is one, and the identity is none")
def reorder(call: Call) -> RelayExpr | None:
    """Two reorderings are one, and one that changes nothing is none."""
    axes, inner = _permutation(call), call.args[0]
    if axes is not None and axes == tuple(range(len(axes))):
        return inner
    traits = traits_of(inner)
    if traits is None or not traits.permutes:
        return None
    inner = as_call(inner)
    data, before = inner.args[0], _permutation(inner)
    if axes is not None and before is not None:
        return _transposed(data, tuple(before[a] for a in axes), inner, call)
    if axes is not None:  # blocks are cut or joined, then axes change places
        src, dst = _layouts(inner)
        return _transform(data, list(src.parts), [dst.parts[a] for a in axes], inner, call)
    src, dst = _layouts(call)
    if before is not None:  # axes change places, then blocks are cut or joined
        earlier = [src.parts[before.index(k)] for k in range(len(before))]
        return _transform(data, earlier, list(dst.parts), inner, call)
    first, middle = _layouts(inner)
    if middle != src:
        return None
    return _transform(data, list(first.parts), list(dst.parts), inner, call)


@law("concatenate((x,)) = x")
def concatenate(call: Call) -> RelayExpr | None:
    """The concatenation of one tensor is that tensor."""
    fields = call.args[0].fields if isinstance(call.args[0], Tuple) else ()
    return fields[0] if len(fields) == 1 else None


def _is_empty(expr: RelayExpr) -> bool:
    ty = expr.checked_type
    return isinstance(ty, TensorType) and 0 in ty.shape


@law("concatenate((x, nothing)) = concatenate((x,))")
def concatenate_nothing(call: Call) -> RelayExpr | None:
    """What has no element is left out of a concatenation that has some."""
    fields = call.args[0].fields if isinstance(call.args[0], Tuple) else ()
    kept = [field for field in fields if not _is_empty(field)]
    if not kept or len(kept) == len(fields):
        return None
    joined = Tuple(kept, call.args[0].span)
    return merged("concatenate", [joined], {"axis": call.attrs["axis"]}, call) if len(kept) > 1 else kept[0]


@law("split(x) into x and nothing = (x, nothing)")
def split_nothing(call: Call) -> RelayExpr | None:
    """A split of which one part is everything, as of a head that is rotated whole, is no split."""
    data, parts = call.args[0], tuple_type(call).fields
    if _is_empty(data) or not all(isinstance(t, TensorType) and t.is_static for t in parts):
        return None
    if sum(t == data.checked_type for t in parts) != 1:
        return None
    fields = [data if t == data.checked_type else _nothing(as_tensor_type(t), call) for t in parts]
    return Tuple(fields, call.span)


def _nothing(ty: TensorType, call: Call) -> RelayExpr:
    return merged("zeros", [], {"shape": ty.concrete_shape, "dtype": ty.dtype}, call)


@law("a slice of everything is x")
def strided_slice(call: Call) -> RelayExpr | None:
    """A slice in steps of one that takes everything is none."""
    strides = call.attrs["strides"]
    return keeps_type(call) if all(s == 1 for s in strides or ()) else None


@law("a slice without elements = zeros of its shape")
def slice_nothing(call: Call) -> RelayExpr | None:
    """A slice of no element is filled with nothing, which is a constant, and does not wait for what it cuts."""
    ty = _static(call)
    return _nothing(ty, call) if ty is not None and _is_empty(call) else None


@law("a padding of nothing is x")
def pad(call: Call) -> RelayExpr | None:
    """A padding that adds nothing is none; one that cuts on one side what it adds on the other stays."""
    cuts = any(width < 0 for widths in call.attrs["pad_width"] for width in widths)
    return None if cuts else keeps_type(call)


def _static(call: Call) -> TensorType | None:
    ty = call.checked_type
    return ty if isinstance(ty, TensorType) and ty.is_static else None


def filled_like(name: str) -> Rule:
    """``zeros_like(x)`` is ``zeros(shape of x)``; of ``full_like`` the value stays an input."""

    @law(f"{name}_like(x) = {name}(shape of x)")
    def rule(call: Call) -> RelayExpr | None:
        ty = _static(call)
        if ty is None:
            return None
        return merged(name, list(call.args[1:]), {"shape": ty.shape, "dtype": ty.dtype}, call)

    return rule


def shaped_like(build: Callable[[RelayExpr, tuple[int, ...]], Call]) -> Rule:
    """``reshape_like(x, y)`` is ``reshape(x, shape)`` where the shape of the result is known."""

    @law("f_like(x, y) = f(x, shape of y)")
    def rule(call: Call) -> RelayExpr | None:
        ty = _static(call)
        return None if ty is None else bind_span(build(call.args[0], ty.concrete_shape), call.span)

    return rule


@law("cast_like(x, y) = cast(x, dtype of y)")
def cast_like(call: Call) -> RelayExpr | None:
    """``cast_like(x, y)`` is ``cast(x, dtype of y)``."""
    ty = call.checked_type
    return merged("cast", [call.args[0]], {"dtype": ty.dtype}, call) if isinstance(ty, TensorType) else None


def _by_traits(op: Op) -> tuple[Rule, ...] | None:
    if op.traits.repeats:
        return (keeps_type,)
    if op.traits.permutes:
        return (reorder,)
    return (reshape_to,) if op.traits.is_view and op.num_inputs == 1 else None


def says_new_shape(op: Op) -> bool:
    """True for a view that says the new shape whole."""
    return op.traits.is_view and op.num_inputs == 1 and _has_attribute(op, "newshape")


_BY_NAME: dict[str, tuple[Rule, ...]] = {
    "nn.pad": (pad,),
    "concatenate": (concatenate, concatenate_nothing),
    "split": (split_nothing,),
    "strided_slice": (strided_slice, slice_nothing),
    "zeros_like": (filled_like("zeros"),),
    "ones_like": (filled_like("ones"),),
    "full_like": (filled_like("full"),),
    "reshape_like": (shaped_like(reshape),),
    "collapse_sum_like": (shaped_like(lambda data, shape: relay.collapse_sum_to(data, shape)),),
    "broadcast_to_like": (shaped_like(lambda data, shape: relay.broadcast_to(data, shape)),),
    "cast_like": (cast_like,),
}
SHAPES: Mapping[str, tuple[Rule, ...]] = ByOperator(_by_traits, _BY_NAME)
