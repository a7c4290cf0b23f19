"""Sequences and optionals. Source: ONNX Sequence*-11, SplitToSequence-11/24, ConcatFromSequence-11, Optional-15,
 OptionalHasElement-15/18, OptionalGetElement-15/18.

A sequence whose length is known when importing is a tuple, and what is done with it is straight code: a part that is
taken out of a split costs nothing. Any other is a value of ``relay.op.sequence``. An optional that is known is its
element, or nothing; one that is not is a sequence of at most one element.
"""

from __future__ import annotations

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.ir.types import TensorType
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Constant, Tuple, constant
from byoc.relay.frontend.onnx.decisions import scalar
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import converter
from byoc.relay.frontend.onnx.scope import as_sequence, known_fields
from byoc.relay.op import sequence
from byoc.relay.op.sequence import element_of, is_optional

MOST_PARTS = 1024  # of a sequence that is a tuple


def _position(node: OnnxNode, index: int) -> RelayExpr | None:
    value = node.optional(index)
    return None if value is None else scalar(node, value)


def _known_position(node: OnnxNode, index: int, length: int) -> int | None:
    """A position that is known when importing, counted from the front. Raises ImportModelError for one outside."""
    value = node.optional(index)
    if not isinstance(value, Constant):
        return None
    place = int(value.data.numpy().reshape(()))
    if not -length <= place < length:
        raise node.error(f"position {place} is outside of a sequence of {length} elements")
    return place + length if place < 0 else place


@converter("SequenceConstruct")
def _construct(node: OnnxNode) -> RelayExpr:
    return Tuple(node.required_inputs())


@converter("SequenceEmpty")
def _empty(node: OnnxNode) -> RelayExpr:
    return Tuple([])


@converter("SequenceInsert")
def _insert(node: OnnxNode) -> RelayExpr:
    fields = known_fields(node[0])
    place = None
    if fields is not None and len(fields) < MOST_PARTS:
        last = node.optional(2) is None
        place = len(fields) if last else _known_position(node, 2, len(fields) + 1)
        place = place if last or place is None else _before_end(node, place, len(fields))
    if fields is None or place is None:
        return sequence.insert(as_sequence(node[0]), node[1], _position(node, 2))
    return Tuple([*fields[:place], node[1], *fields[place:]])


def _before_end(node: OnnxNode, place: int, length: int) -> int:
    """A place to insert at: one that is counted from the end is before the last element."""
    given = int(node.known(2, "the position").reshape(()))
    return place if given >= 0 else given + length


@converter("SequenceErase")
def _erase(node: OnnxNode) -> RelayExpr:
    fields = known_fields(node[0])
    if fields is not None:
        last = node.optional(1) is None
        place = len(fields) - 1 if last else _known_position(node, 1, len(fields))
        if place is not None and fields:
            return Tuple([*fields[:place], *fields[place + 1 :]])
    position = _position(node, 1)
    return sequence.erase(as_sequence(node[0]), constant(np.int64(-1)) if position is None else position)


@converter("SequenceAt")
def _at(node: OnnxNode) -> RelayExpr:
    fields = known_fields(node[0])
    place = None if fields is None else _known_position(node, 1, len(fields))
    if fields is not None and place is not None:
        return fields[place]
    return sequence.at(as_sequence(node[0]), scalar(node, node[1]))


@converter("SequenceLength")
def _length(node: OnnxNode) -> RelayExpr:
    fields = known_fields(node[0])
    return sequence.length(node[0]) if fields is None else constant(np.int64(len(fields)))


@converter("ConcatFromSequence")
def _concat(node: OnnxNode) -> RelayExpr:
    axis, new_axis = node.attrs.int("axis"), node.attrs.flag("new_axis")
    fields = known_fields(node[0])
    if fields:
        rank = node.rank(fields[0]) + new_axis
        place = node.axis(axis, rank)
        if len(fields) == 1:
            return relay.expand_dims(fields[0], place) if new_axis else fields[0]
        return relay.stack(fields, place) if new_axis else relay.concatenate(fields, place)
    element = element_of(infer_expr(as_sequence(node[0])))
    if not isinstance(element, TensorType):
        raise node.error("nothing is known of the elements that are joined; put a tensor into the sequence first")
    return sequence.concat(node[0], axis, new_axis, element)


@converter("SplitToSequence")
def _split(node: OnnxNode) -> RelayExpr:
    data, axis = node[0], node.axis(node.attrs.int("axis", 0), node.rank(node[0]))
    size, given = node.shape(data)[axis], node.optional(1)
    keepdims = node.attrs.flag("keepdims", True) or given is not None
    sizes = _sizes(node, size) if isinstance(size, int) else None
    if sizes is None:
        return sequence.split(data, given, axis, keepdims)
    if min(sizes, default=0) < 0 or sum(sizes) != size:
        raise node.error(f"the parts {sizes} do not make up the {size} elements of axis {axis}")
    if not sizes:
        return Tuple([])
    parts = relay.split(data, np.cumsum(sizes)[:-1].tolist(), axis).astuple() if len(sizes) > 1 else Tuple([data])
    fields = known_fields(parts) or []
    return Tuple(fields if keepdims else [relay.squeeze(part, [axis]) for part in fields])


def _sizes(node: OnnxNode, size: int) -> list[int] | None:
    """The sizes of the parts, or None where they are known only when the model runs, or are too many."""
    given = node.optional(1)
    known = node.value(1)
    if given is not None and known is None:
        return None
    if known is not None and known.ndim:
        return [int(s) for s in known]
    one = 1 if known is None else int(known)
    if one <= 0:
        raise node.error(f"the size of a part is above 0, got {one}")
    if size > one * MOST_PARTS:
        return None
    return [min(one, size - k) for k in range(0, size, one)]


@converter("Optional", since=15)
def _optional(node: OnnxNode) -> list[RelayExpr]:
    value = node.optional(0)
    if value is None:
        node.services.leave_out(node.outputs[0])
    return [] if value is None else [value]


@converter("OptionalHasElement", since=15)
def _has_element(node: OnnxNode) -> RelayExpr:
    value = node.optional(0)
    if value is None or not is_optional(infer_expr(value)):
        return constant(np.bool_(value is not None))
    return relay.greater(sequence.length(value), constant(np.int64(0)))


@converter("OptionalGetElement", since=15)
def _get_element(node: OnnxNode) -> RelayExpr:
    value = node.optional(0)
    if value is None:
        raise node.error("the optional is empty, and its element is asked for")
    return sequence.at(value, constant(np.int64(0))) if is_optional(infer_expr(value)) else value
