"""What a call becomes when its channels lie innermost: the form that a layout rule gives it.

A value is held *in an order*: a permutation of its axes, the axis of the value for each axis in memory. A form says in
which order a call wants its inputs and gives its results, and its attributes then. It is read off the rules of
``layout_rules`` (and of ``convert_layout_rules`` where a layout is an attribute) by naming the axes of each call
afresh, so that no names have to agree over the graph. Permutations and reshapes of spatial axes have rules of their
own here: they change which axes a value has, and may turn out to move nothing.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from byoc.errors import UserError
from byoc.ir.attrs import Attrs, as_int
from byoc.ir.layout import Layout
from byoc.ir.op import Op
from byoc.ir.traits import OpKind
from byoc.ir.types import Any, Dim, TensorType, TupleType, tensor_types
from byoc.relay.expr import Call
from byoc.relay.narrowing import operator_of, tensor_type
from byoc.relay.op.movement.shape import ReshapeAttrs
from byoc.relay.transform.layout.convert_layout_rules import CONVERT_RULES, is_depthwise
from byoc.relay.transform.layout.inference import SCALAR, CorrectLayouts, LayoutCase, LayoutRule
from byoc.relay.transform.layout.rules import layout_rule

Order = tuple[int, ...]
KEPT = 256  # layouts, and pairs of them, whose meaning is remembered
CHANNELS_FIRST = {3: "NCW", 4: "NCHW", 5: "NCDHW"}
CHANNELS_LAST = {3: "NWC", 4: "NHWC", 5: "NDHWC"}


@functools.lru_cache(KEPT)
def _layout(name: str) -> Layout:
    """The layout *name*, of which there are few."""
    return Layout(name) if name else SCALAR


@functools.lru_cache(KEPT)
def _order(before: Layout, after: Layout) -> Order:
    return order_of(before, after)


def order_of(before: Iterable[str], after: Iterable[str]) -> Order:
    """The axis of *before* for each axis of *after*: ``NCHW``, ``NHWC`` give ``(0, 2, 3, 1)``."""
    names = list(before)
    return tuple(names.index(letter) for letter in after)


@functools.lru_cache(KEPT)
def as_given(ndim: int) -> Order:
    """The order of a value whose axes lie as they are numbered."""
    return tuple(range(ndim))


@functools.lru_cache(KEPT)
def channels_last(ndim: int) -> Order:
    """The order with axis 1 innermost; of fewer than three axes the one as given."""
    return (0, *range(2, ndim), 1) if ndim > 2 else as_given(ndim)


def inverse(order: Order) -> Order:
    """The order that undoes *order*."""
    return tuple(order.index(k) for k in range(len(order)))


def moves_nothing(shape: Sequence[Dim], before: Order, after: Order) -> bool:
    """True when a value of *shape* has the same bytes in both orders: only dimensions of 1 change places."""

    def kept(order: Order) -> list[int]:
        return [k for k in order if isinstance(shape[k], Any) or shape[k] != 1]

    return kept(before) == kept(after)


@dataclass(frozen=True)
class Wanted:
    """How a call takes one input: with *added* dimensions of 1 before it, then in an order."""

    added: int
    order: Order


@dataclass(frozen=True)
class Form:
    """A call with its channels innermost: how it takes its inputs (tuples flattened) and gives its results.

    A call that *is_nothing* disappears: its only input in the order wanted is its result. The elements of one that
    *mixes* come out in another order, for which the weights that meet them make up.
    """

    inputs: tuple[Wanted, ...]
    outputs: tuple[Order, ...]
    attrs: Attrs | None
    is_nothing: bool = False
    mixes: bool = False


def channels_last_form(call: Call, from_last: bool = False) -> Form | None:
    """The form of a typed *call* with its channels innermost; None where it has none, or nothing would differ.

    Every result is as given or has its channels innermost. A transpose that is its own inverse takes its input so, or
    gives its result so (*from_last*).
    """
    if not isinstance(call.op, Op) or not _has_meaning(call.op) or _tuples_as_values(call):
        return None
    inputs, outputs = [t for a in call.args for t in tensor_types(a.checked_type)], tensor_types(call.checked_type)
    if not inputs or not all(t.is_symbolic for t in (*inputs, *outputs)):
        return None
    own = _OWN_FORMS.get(call.op.name)
    form = own(call, from_last) if own is not None else _by_rule(call, inputs)
    if form is None or not (form.is_nothing or any(_is_last(w.order) for w in form.inputs)):
        return None
    fits = all(o in (as_given(len(o)), channels_last(len(o))) for o in form.outputs)
    return form if fits else None


def _has_meaning(op: Op) -> bool:
    """Whether the axes of *op* are known: it has a tensor expression, or is quantized and follows a plain operator."""
    return op.compute is not None or op.traits.quantized


def _is_last(order: Order) -> bool:
    return len(order) > 2 and order == channels_last(len(order))


def _tuples_as_values(call: Call) -> bool:
    """True where a tuple comes as one value, whose fields cannot be reached."""
    return any(isinstance(a.checked_type, TupleType) and not hasattr(a, "fields") for a in call.args)


def _by_rule(call: Call, types: Sequence[TensorType]) -> Form | None:
    rule = _rule_of(operator_of(call))
    ndim = max(t.ndim for t in types)
    if rule is None or ndim not in CHANNELS_FIRST:
        return None
    first, last = CHANNELS_FIRST[ndim], CHANNELS_LAST[ndim]
    case_types = tuple(a.checked_type for a in call.args)
    old = tuple(_layout(first[ndim - t.ndim :]) for t in types)
    results = tensor_types(call.checked_type)
    has_scalars = any(t.ndim == 0 for t in types)

    def ask(attrs: Attrs | None, new: tuple[Layout, ...] | None, old: tuple[Layout, ...]) -> CorrectLayouts | None:
        found = rule(LayoutCase(attrs, new, old, case_types))
        if (
            found is not None and has_scalars and len(found.inputs) == len(types)
        ):  # scales and zero points of one number have no axes
            inputs = tuple(x if t.ndim else SCALAR for x, t in zip(found.inputs, types, strict=True))
            found = replace(found, inputs=inputs)
        return found and found.with_scalars(results)

    before = ask(call.attrs, None, old)
    if before is None or not before.is_known or not _is_plain(before, types, first):
        return None
    now = tuple(_turned(x, last) if _names_data(x, first) else x for x in before.inputs)
    after = ask(_attrs_with(call, types, last), now, before.inputs)
    if after is None or not after.is_known or len(after.inputs) != len(types):
        return None
    return _form(before, after)


def _rule_of(op: Op) -> LayoutRule | None:
    """The rule of *op*: our own, else the one that layouts are inferred by, else what follows from its traits."""
    rule = _OWN_RULES.get(op.name) or layout_rule(op)
    if rule is not None or op.attrs_type is None:
        return _selection if rule is None and op.traits.is_pointwise else rule
    moves_by_layout = op.traits.kind is OpKind.MOVE and "layout" in op.attrs_type.__dataclass_fields__
    return _by_attribute if moves_by_layout else _selection if op.traits.is_pointwise else None


@functools.lru_cache(KEPT)
def _turned(layout: Layout, last: str) -> Layout:
    """The axes of *layout* in the order of *last*."""
    return _layout("".join(letter for letter in last if letter in layout))


@functools.lru_cache(KEPT)
def _names_data(layout: Layout, first: str) -> bool:
    return set(layout.name) <= set(first)


def _is_plain(layouts: CorrectLayouts, types: Sequence[TensorType], first: str) -> bool:
    """True where the channels are axis 1 as things stand, and each layout names each axis of its input."""
    if len(layouts.inputs) != len(types):
        return False
    ordered = all(_is_in_order(x, first) for x in (*layouts.inputs, *layouts.outputs))
    return ordered and all(len(x) == t.ndim for x, t in zip(layouts.inputs, types, strict=True))


@functools.lru_cache(KEPT)
def _is_in_order(layout: Layout, first: str) -> bool:
    """Whether the axes of data in *layout* come as in *first*; true of what holds other axes."""
    return not _names_data(layout, first) or list(layout) == sorted(layout, key=first.index)


def _attrs_with(call: Call, types: Sequence[TensorType], last: str) -> Attrs | None:
    """The attributes of *call* after its layout attribute, if it has one, is *last*."""
    rule = CONVERT_RULES.get(operator_of(call).name)
    if rule is None or call.attrs is None:
        result: Attrs | None = call.attrs
        return result
    kernel = []
    if hasattr(call.attrs, "kernel_layout"):  # the axis that runs along the output channels stands innermost
        kernel = [last[1:-1] + ("OI" if is_depthwise(call.attrs, types) else "IO")]
    try:
        made = rule(call.attrs, call.args, types, [last, *kernel])
    except UserError:  # no such layout for this operator
        result = call.attrs
        return result
    result = call.attrs if made is None else made.attrs
    return result


def _form(before: CorrectLayouts, after: CorrectLayouts) -> Form | None:
    wanted = []
    for old, new in zip(before.inputs, after.inputs, strict=True):
        taken = _wanted(old, new)
        if taken is None:
            return None
        wanted.append(taken)
    outputs = tuple(_order(old, new) for old, new in zip(before.outputs, after.outputs, strict=True))
    return Form(tuple(wanted), outputs, after.attrs)


@functools.lru_cache(KEPT)
def _wanted(old: Layout, new: Layout) -> Wanted | None:
    """How an input that lies in *old* is taken in *new*; None where that has no order."""
    added = [letter for letter in new if letter not in old]
    if set(old) - set(new) or new.is_blocked:
        return None
    return Wanted(len(added), order_of([*added, *old], new))


def _permuted(call: Call, from_last: bool) -> Form | None:
    """A transpose: nothing where it only says in which order its input lies, else the one that gives the same."""
    ndim, axes = tensor_type(call).ndim, call.attrs["axes"]
    axes = tuple(a % ndim for a in axes) if axes else tuple(reversed(range(ndim)))
    last = channels_last(ndim)
    if axes == last and not (from_last and axes == inverse(last)):
        return Form((Wanted(0, last),), (as_given(ndim),), None, True)
    if axes == inverse(last):
        return Form((Wanted(0, as_given(ndim)),), (last,), None, True)
    moved = tuple(last.index(a) for a in axes)
    return Form((Wanted(0, last),), (as_given(ndim),), replace(call.attrs, axes=moved))


def _reshaped(call: Call, from_last: bool) -> Form | None:
    """A reshape of the spatial axes alone keeps the channels innermost."""
    old, new = tensor_type(call.args[0]).shape, tensor_type(call).shape
    if min(len(old), len(new)) < 3 or any(isinstance(d, Any) for d in (*old, *new)):
        return None
    if tuple(old[:2]) != tuple(new[:2]) or math.prod(map(int, old)) != math.prod(map(int, new)):
        return None
    order = channels_last(len(new))
    attrs = type(call.attrs)(newshape=tuple(int(new[k]) for k in order))
    return Form((Wanted(0, channels_last(len(old))),), (order,), attrs)


def flattened_form(call: Call) -> Form | None:
    """A reshape or flatten of all axes but the first into one, with the channels innermost among them."""
    takes_shape = isinstance(call.attrs, ReshapeAttrs)
    if not isinstance(call.op, Op) or not call.op.traits.is_view or not (takes_shape or call.attrs is None):
        return None
    old, new = tensor_type(call.args[0]).shape, tensor_type(call).shape
    if len(old) not in CHANNELS_LAST or len(new) != 2 or any(isinstance(d, Any) for d in (*old[1:], new[1])):
        return None
    if math.prod(map(int, old[1:])) != new[1]:
        return None
    attrs = ReshapeAttrs((-1, int(new[1]))) if takes_shape else call.attrs
    return Form((Wanted(0, channels_last(len(old))),), (as_given(2),), attrs, mixes=True)


def _along_channels(case: LayoutCase) -> CorrectLayouts | None:
    """A vector along one axis by name, as prelu's."""
    place = case.moved(as_int(case.attrs["axis"]))
    if place is None:
        return None
    return case.with_channels(attrs=replace(case.attrs, axis=place))


def _selection(case: LayoutCase) -> CorrectLayouts:
    """Any number of inputs that are broadcast to each other: scalars stay, the others come as the largest does."""
    largest = max(case.new or case.old, key=len)
    inputs = case.old if case.new is None else [largest if len(x) else x for x in case.old]
    return CorrectLayouts(tuple(inputs), (largest,), case.attrs)


def _by_attribute(case: LayoutCase) -> CorrectLayouts:
    """The layout of the data as the attribute says."""
    layout = Layout(str(case.attrs["layout"])) if case.new is None else case.new[0]
    return CorrectLayouts((layout,), (layout,), replace(case.attrs, layout=layout.name))


# what Relay's rules leave as it is, or do not know
_OWN_RULES: dict[str, LayoutRule] = {
    "nn.prelu": _along_channels,
}
_OWN_FORMS = {"transpose": _permuted, "reshape": _reshaped}
