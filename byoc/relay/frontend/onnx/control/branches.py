"""Branches. Source: ONNX If-1/11/13/16/19/21.

A branch is a global function of straight code; which one is taken at run time says a function that holds one Relay
``If`` (``subgraphs.py``). In a loop branches of a few functions of elements are both computed, and ``where`` chooses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from byoc import relay
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.op import Op
from byoc.ir.types import TensorType, TupleType, Type
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, If, Tuple, TupleGetItem, Var
from byoc.relay.frontend.onnx.branch_trials import BRANCHES
from byoc.relay.frontend.onnx.node import BranchesDifferError, OnnxNode
from byoc.relay.frontend.onnx.registry import converter
from byoc.relay.frontend.onnx.subgraphs import InnerGraph
from byoc.relay.op.sequence import joined_element
from byoc.relay.traverse import post_order

MOST_SELECTED = 8  # calls in a branch that is computed whether it is taken or not


def scalar(node: OnnxNode, value: RelayExpr) -> RelayExpr:
    """*value*, a tensor of one element, without dimensions."""
    return relay.squeeze(value) if node.rank(value) else value


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


def _is_selected(graph: InnerGraph) -> bool:
    """Whether *graph* takes less time than a decision: a few functions of floating-point elements, which never fail."""
    found = [n for output in graph.outputs for n in post_order(output) if isinstance(n, (Call, Tuple, TupleGetItem))]
    return 0 < len(found) <= MOST_SELECTED and all(
        isinstance(n, Call)
        and isinstance(n.op, Op)
        and n.op.traits.is_pointwise
        and isinstance(n.checked_type, TensorType)
        and n.checked_type.dtype.startswith("float")
        for n in found
    )


def _with_ranks_of(graph: InnerGraph, other: InnerGraph) -> InnerGraph:
    """*graph*, whose outputs of one element have as many dimensions as those of *other*, where these have more."""
    outputs = []
    for output, own, other_type in zip(graph.outputs, graph.types, other.types, strict=True):
        rank, wider = _rank_of_one(own), _rank_of_one(other_type)
        outputs.append(relay.reshape(output, [1] * wider) if 0 <= rank < wider else output)
    return replace(graph, outputs=outputs)


def _rank_of_one(ty: Type) -> int:
    """How many dimensions a tensor of one element has; -1 for what is none."""
    is_one = isinstance(ty, TensorType) and all(isinstance(d, int) and d == 1 for d in ty.shape)
    return len(ty.shape) if isinstance(ty, TensorType) and is_one else -1


@converter("If")
def _if(node: OnnxNode) -> list[RelayExpr]:
    """A condition that is known when importing leaves one branch; in a loop, of small ones the values are selected."""
    known = node.value(0)
    graphs = [node.attrs.graph(name) for name in BRANCHES]
    if known is not None:
        return node.services.subgraph(graphs[0 if bool(known.reshape(())) else 1])
    then, other = (node.services.inner(graph, []) for graph in graphs)
    if len(then.outputs) != len(other.outputs):
        raise node.error(f"the branches have {len(then.outputs)} and {len(other.outputs)} outputs")
    then, other = _with_ranks_of(then, other), _with_ranks_of(other, then)
    small = _is_selected(then) and _is_selected(other) and then.types == other.types
    if small and node.services.is_inner:  # once in a run of the model a decision costs nothing
        condition = scalar(node, node[0])
        pairs = zip(*(node.services.inlined(graph, ()) for graph in graphs), strict=True)
        return [relay.where(condition, taken, left) for taken, left in pairs]
    return decided(node, node[0], (then, other), node.outputs)


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
