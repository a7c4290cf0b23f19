"""Branches. Source: ONNX If-1/11/13/16/19/21.

A branch is a global function of straight code; which one is taken at run time says a function that holds one Relay
``If`` (``subgraphs.py``). In a loop branches of a few functions of elements are both computed, and ``where`` chooses.
"""

from __future__ import annotations

from dataclasses import replace

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.ir.types import TensorType, Type
from byoc.relay.expr import Call, Tuple, TupleGetItem
from byoc.relay.frontend.onnx.branch_trials import BRANCHES
from byoc.relay.frontend.onnx.decisions import decided, scalar
from byoc.relay.frontend.onnx.node import BranchesDifferError, OnnxNode
from byoc.relay.frontend.onnx.registry import converter
from byoc.relay.frontend.onnx.subgraphs import InnerGraph
from byoc.relay.traverse import post_order

MOST_SELECTED = 8  # calls in a branch that is computed whether it is taken or not


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
        return node.services.subgraph(graphs[0 if bool(known.reshape(())) else 1], node.taken)
    before = node.services.functions.state()
    try:
        then, other = map(node.services.branch, graphs)
    except BranchesDifferError as error:  # which is decided behind this one, with all that follows
        node.services.functions.restore(before)
        raise BranchesDifferError(str(error), node[0]) from error
    if len(then.outputs) != len(other.outputs):
        raise node.error(f"the branches have {len(then.outputs)} and {len(other.outputs)} outputs")
    then, other = _with_ranks_of(then, other), _with_ranks_of(other, then)
    small = _is_selected(then) and _is_selected(other) and then.types == other.types
    if small and node.services.is_inner:  # once in a run of the model a decision costs nothing
        condition = scalar(node, node[0])
        pairs = zip(*(node.services.inlined(graph, ()) for graph in graphs), strict=True)
        return [relay.where(condition, taken, left) for taken, left in pairs]
    return decided(node, node[0], (then, other), node.outputs)
