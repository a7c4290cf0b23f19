"""What is known of shapes that the graph computes, although not all of their sizes are numbers.

``Concat(Gather(Shape(x), 0), [768])`` is (the size of x's first dimension, 768) whatever that size is: a Reshape to it
keeps its sizes, named ones included. A value is a tuple of sizes: an int, an Any, or None where nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from byoc.ir.attrs import all_given
from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.ir.types import Any, TensorType
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Constant, constant
from byoc.relay.frontend.onnx.node import OnnxNode

Dims = tuple[int | Any | None, ...]
DimsOf = Callable[[RelayExpr], "Dims | None"]
MAX_RANK = 16  # a longer list of integers is no shape


def constant_dims(expr: RelayExpr) -> Dims | None:
    """The numbers of a small integer constant, or None."""
    if not isinstance(expr, Constant):
        return None
    array = expr.data.numpy()
    if array.dtype.kind != "i" or array.ndim > 1 or array.size > MAX_RANK:
        return None
    return tuple(int(v) for v in array.reshape(-1))


def _of_shape(node: OnnxNode, dims: DimsOf) -> Dims | None:
    shape = tuple(d if isinstance(d, int) or d.name else None for d in node.shape(node[0]))
    return shape[slice(node.attrs.int("start", 0), node.attrs.int("end", len(shape)))]


def _same(node: OnnxNode, dims: DimsOf) -> Dims | None:
    return dims(node[0])


def _gathered(node: OnnxNode, dims: DimsOf) -> Dims | None:
    data, index = dims(node[0]), node.value(1)
    if data is None or index is None or index.ndim > 1:
        return None
    positions = [int(i) for i in index.reshape(-1)]
    return tuple(data[i] for i in positions) if all(-len(data) <= i < len(data) for i in positions) else None


def _joined(node: OnnxNode, dims: DimsOf) -> Dims | None:
    parts: list[Dims] = []
    for part in node.required_inputs():
        shape, known = node.shape(part), dims(part)
        if known is None:
            if len(shape) != 1 or not isinstance(shape[0], int) or shape[0] > MAX_RANK:
                return None
            known = (None,) * shape[0]
        parts.append(known)
    return tuple(d for part in parts for d in part)


def _sliced(node: OnnxNode, dims: DimsOf) -> Dims | None:
    data = dims(node[0])
    if data is None:
        return None
    if node.opset < 10:
        starts, ends = node.attrs.ints("starts"), node.attrs.ints("ends")
        return data[starts[0] : ends[0]] if len(starts) == 1 else None
    step = node.value(4) if node.optional(4) is not None else np.ones(1, int)
    bounds = [node.value(1), node.value(2), step]
    if not all_given(bounds) or any(b.size != 1 for b in bounds):
        return None
    return data[slice(*(int(b.reshape(())) for b in bounds))]


def _chosen(node: OnnxNode, dims: DimsOf) -> Dims | None:
    """Of ``Where(Equal(a, b), x, y)``: exporters let -1 in a list of sizes stand for a size that stays as it is."""
    condition = node[0]
    if not isinstance(condition, Call) or not isinstance(condition.op, Op) or condition.op.name != "equal":
        return None
    lists = [dims(e) for e in (*condition.args, node[1], node[2])]
    known = [each for each in lists if each is not None]
    count = max(len(each) for each in known) if len(known) == len(lists) else 0
    if not count or any(len(each) not in (1, count) for each in known):
        return None
    spread = [each * (count // len(each)) for each in known]
    return tuple(_either(*each) for each in zip(*spread, strict=True))


def _either(a: int | Any | None, b: int | Any | None, x: int | Any | None, y: int | Any | None) -> int | Any | None:
    """*x* where *a* is *b*, else *y*; a size is never negative."""
    if isinstance(a, int) and isinstance(b, int):
        return x if a == b else y
    if any(isinstance(one, Any) and isinstance(other, int) and other < 0 for one, other in ((a, b), (b, a))):
        return y
    return x if x == y else None


_RULES: dict[str, Callable[[OnnxNode, DimsOf], Dims | None]] = {
    "Shape": _of_shape,
    "Gather": _gathered,
    "Concat": _joined,
    "Slice": _sliced,
    "Identity": _same,
    "Cast": _same,
    "Squeeze": _same,
    "Unsqueeze": _same,
    "Reshape": _same,
    "Where": _chosen,
}


class PartialShapes:
    """The shapes that are known in part, by expression."""

    def __init__(self) -> None:
        self._known: dict[RelayExpr, Dims] = {}

    def find(self, expr: RelayExpr) -> Dims | None:
        """The sizes that *expr* holds, or None where it holds no sizes that are known."""
        return self._known.get(expr) or constant_dims(expr)

    def note(self, node: OnnxNode, outputs: Sequence[RelayExpr]) -> Constant | None:
        """Remember what the only output of *node* says of a shape; returned as a constant where it says all."""
        rule = _RULES.get(node.op_type)
        if rule is None or len(outputs) != 1 or isinstance(outputs[0], Constant):
            return None
        ty = infer_expr(outputs[0])
        if not isinstance(ty, TensorType) or ty.ndim > 1 or not ty.dtype.startswith("int"):
            return None
        dims = rule(node, self.find)
        if not dims or all(d is None for d in dims):
            return None
        self._known[outputs[0]] = dims
        if not all(isinstance(d, int) for d in dims):
            return None
        return constant(np.array(dims if ty.ndim else dims[0], ty.dtype))
