"""A choice of the run between two graphs, each of which is a function of its own. Source: ONNX If.

Which one is taken says a function that holds one Relay ``If`` (``subgraphs.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from byoc import relay
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.types import TensorType, TupleType, Type, TypeCall
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, If, Tuple, TupleGetItem, Var
from byoc.relay.frontend.onnx.node import BranchesDifferError, OnnxNode
from byoc.relay.frontend.onnx.subgraphs import InnerGraph
from byoc.relay.op.sequence import any_rank, is_any_rank, joined_element


def scalar(node: OnnxNode, value: RelayExpr) -> RelayExpr:
    """*value*, a tensor of one element, without dimensions."""
    return relay.reshape(value, []) if node.rank(value) else value


def fields_of(value: RelayExpr, count: int) -> list[RelayExpr]:
    """The *count* outputs of a call: itself where it gives one."""
    return [value] if count == 1 else [TupleGetItem(value, k) for k in range(count)]


def whole(values: Sequence[RelayExpr]) -> RelayExpr:
    """One value for several: a tuple of them, or the one that there is."""
    return values[0] if len(values) == 1 else Tuple(values)


def type_of_whole(types: Sequence[Type]) -> Type:
    """The type of what :func:`whole` gives."""
    return types[0] if len(types) == 1 else TupleType(types)


class Captured:
    """What several inner graphs read from outside, as further parameters of the function that calls them."""

    def __init__(self, node: OnnxNode, graphs: Sequence[InnerGraph]):
        values = dict.fromkeys(value for graph in graphs for _, value in graph.captured)
        outside = node.services.sizes.outside
        self.params = {v: Var(f"captured{k}", outside(infer_expr(v))) for k, v in enumerate(values)}
        self.values = list(values)

    def handed_to(self, graph: InnerGraph) -> list[RelayExpr]:
        """What *graph* takes of these, in its order."""
        return [self.params[value] for _, value in graph.captured]


def straight(node: OnnxNode, what: str, graph: InnerGraph, result: Type | None = None) -> GlobalVar:
    """The function of an inner graph: its parameters, then what it captures."""
    params = [*graph.params, *(param for param, _ in graph.captured)]
    return node.services.functions.straight(f"{node.name} {what}", params, graph.outputs, node.name, result)


def of_any_rank(then: InnerGraph, other: InnerGraph) -> tuple[InnerGraph, InnerGraph]:
    """Both graphs, whose outputs of one dtype and different ranks have no rank in their types: those of a model."""
    pairs = list(zip(then.types, other.types, strict=True))
    differ = [joined_element(a, b) is None and _scalar_of(a) == _scalar_of(b) is not None for a, b in pairs]
    made = [
        [_without_rank(output) if free else output for output, free in zip(graph.outputs, differ, strict=True)]
        for graph in (then, other)
    ]
    return replace(then, outputs=made[0]), replace(other, outputs=made[1])


def _scalar_of(ty: Type) -> TensorType | None:
    """A scalar of the dtype of a tensor, whatever its rank; None for another value."""
    found = ty.args[0] if isinstance(ty, TypeCall) and is_any_rank(ty) else ty
    return TensorType((), found.dtype) if isinstance(found, TensorType) else None


def _without_rank(value: RelayExpr) -> RelayExpr:
    return value if is_any_rank(infer_expr(value)) else any_rank(value)


def decided(
    node: OnnxNode, condition: RelayExpr, graphs: tuple[InnerGraph, InnerGraph], names: Sequence[str]
) -> list[RelayExpr]:
    """The outputs, called *names*, of one of two *graphs*, the first where *condition*, one bool, is true.

    Raises BranchesDifferError where no type is that of both.
    """
    then, other = graphs
    types = []
    for k, (left, right) in enumerate(zip(then.types, other.types, strict=True)):
        either = joined_element(left, right)
        if either is None:
            raise BranchesDifferError(
                f"{node.place}: the branches give {left} and {right} for output {names[k]!r}: one type is "
                "needed, of one rank and one dtype; make the branches agree, or the condition a constant",
                condition,
            )
        types.append(node.services.sizes.outside(either))
    captured, result = Captured(node, graphs), type_of_whole(types)
    asked = Var("condition", TensorType((), "bool"))
    taken, left_out = (
        Call(straight(node, what, graph, result), captured.handed_to(graph))
        for what, graph in (("then", then), ("else", other))
    )
    params = [asked, *captured.params.values()]
    functions = node.services.functions
    choice = functions.declare(f"{node.name} choice", [infer_expr(p) for p in params], result)
    functions.define(choice, params, If(asked, taken, left_out), node.name)
    return fields_of(Call(choice, [scalar(node, condition), *captured.values]), len(types))
