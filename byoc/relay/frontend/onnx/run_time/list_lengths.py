"""Lists of the run whose length is free: how long they are follows from ranks that the model says; the run looks at it.

Axes, sizes, repeats and coordinates may come as a vector of a length without a number. Most of them have one number for
each dimension of something whose rank is known: of another input, or of what the model declares the output to be. Where
nothing is, the run decides between the graphs for each length (``branch_trials.py``).
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.ir.types import Dim
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.node import BranchesDifferError, OnnxNode
from byoc.relay.frontend.onnx.run_time.slices import item

MOST = 7  # numbers of a list whose length is tried: each doubling of their range is a decision of the run


def of_free_length(node: OnnxNode, index: int) -> bool:
    """Whether input *index* is a list of the run that has no known length."""
    value = node.optional(index)
    if value is None or node.value(index) is not None:
        return False
    shape = node.shape(value)
    return len(shape) == 1 and not isinstance(shape[0], int)


def with_length(node: OnnxNode, index: int, count: int | None, least: int = 0, most: int = MOST) -> OnnxNode:
    """*node*, whose input *index* has *count* numbers if it is a list of free length: the run looks whether it has.

    Where nothing says how many (None), from *least* to *most* are tried.
    Raises BranchesDifferError for a length of which not enough is decided yet.
    """
    if not of_free_length(node, index):
        return node
    return _replaced(node, index, [_decided(node, index, least, most) if count is None or count < 0 else count])


def with_last_size(node: OnnxNode, index: int, count: int | None, most: int) -> OnnxNode:
    """As :func:`with_length` for the last size of input *index*, if that is free."""
    shape = node.shape(node[index])
    if not shape or isinstance(shape[-1], int):
        return node
    known = _decided(node, index, 1, most) if count is None or count < 0 else count
    return _replaced(node, index, [*shape[:-1], known])


def _decided(node: OnnxNode, index: int, least: int, most: int) -> int:
    """The last size of input *index* by what is taken for the node: one decision after another halves the range."""
    low, high = least, most + 1
    for decision in node.taken:
        middle = (low + high) // 2
        low, high = (low, middle) if decision.condition else (middle, high)
    if high - low == 1:
        return low
    size = _last_size(node, index)
    raise BranchesDifferError(
        f"{node.place}: how many dimensions the result has depends on the size of input {index}, "
        f"{node.type_of(node[index])}, which is known only when the model runs; fix it with shapes=, or declare the "
        "output's rank",
        relay.less(size, constant((low + high) // 2, "int64")),
        both=True,
    )


def with_ones_before(node: OnnxNode, index: int, count: int) -> OnnxNode:
    """*node*, whose input *index*, a list of free length, has *count* numbers: as many of them 1 as it lacks."""
    length = relay.shape_of(node[index], "int64")
    missing = relay.subtract(constant([count], "int64"), length)
    checked = relay.check_numbers(missing, 0, f"{node.place}: the declared rank less the length of input {index}")
    ones = relay.full(constant(1, "int64"), checked, "int64")
    joined = relay.concatenate([ones, relay.cast(node[index], "int64")], axis=0)
    inputs = list(node.inputs)
    inputs[index] = relay.match_shape(joined, [count])
    return node.over(inputs)


def declared_rank(node: OnnxNode) -> int | None:
    """The rank of the first output as the model declares it, or None."""
    return node.services.declared_rank(node.outputs[0]) if node.outputs else None


def less(a: int | None, b: int | None) -> int | None:
    """The difference of two numbers; None where one is not known."""
    return None if a is None or b is None else a - b


def _replaced(node: OnnxNode, index: int, shape: Sequence[Dim]) -> OnnxNode:
    """*node*, whose input *index* has *shape*, at which the run looks."""
    inputs = list(node.inputs)
    inputs[index] = relay.match_shape(node[index], shape)
    if 0 in shape and index and node.rank(node[0]):  # of an empty list nothing is read, so that nothing looks at it
        empty = relay.equal(_last_size(node, index), constant(0, "int64"))
        inputs[0] = relay.check_condition(node[0], empty, True, f"{node.place}: that input {index} has no element")
    return node.over(inputs)


def _last_size(node: OnnxNode, index: int) -> RelayExpr:
    return item(relay.shape_of(node[index], "int64"), node.rank(node[index]) - 1)
