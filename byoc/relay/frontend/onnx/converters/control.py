"""Branches and loops. Source: ONNX If-1/11/13/16/19/21, Loop-1/11/13/16/19/21.

A branch and a loop's body are global functions of straight code; a branch taken at run time is a function that holds
one Relay ``If``, a loop one that calls itself while its condition holds (``subgraphs.py``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import GraphProto

from byoc import relay
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.types import TensorType, TupleType, Type
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, If, Tuple, TupleGetItem, Var, constant
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import converter
from byoc.relay.frontend.onnx.subgraphs import InnerGraph, joined

LONGEST = np.iinfo(np.int64).max  # of a loop without a number of runs


def scalar(node: OnnxNode, value: RelayExpr) -> RelayExpr:
    """*value*, a tensor of one element, without dimensions."""
    return relay.squeeze(value) if node.rank(value) else value


def _fields(value: RelayExpr, count: int) -> list[RelayExpr]:
    """The *count* outputs of a call: itself where it gives one."""
    return [value] if count == 1 else [TupleGetItem(value, k) for k in range(count)]


def _whole(values: Sequence[RelayExpr]) -> RelayExpr:
    return values[0] if len(values) == 1 else Tuple(values)


def _type_of_whole(types: Sequence[Type]) -> Type:
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


@converter("If")
def _if(node: OnnxNode) -> list[RelayExpr]:
    """A condition that is known when importing leaves one branch; else both are kept."""
    known = node.value(0)
    graphs = [node.attrs.graph(name) for name in ("then_branch", "else_branch")]
    if known is not None:
        return node.services.subgraph(graphs[0 if bool(known.reshape(())) else 1])
    then, other = (node.services.inner(graph, []) for graph in graphs)
    if len(then.outputs) != len(other.outputs):
        raise node.error(f"the branches have {len(then.outputs)} and {len(other.outputs)} outputs")
    types = []
    for k, (left, right) in enumerate(zip(then.types, other.types, strict=True)):
        either = joined(left, right)
        if either is None:
            raise node.error(
                f"the branches give {left} and {right} for output {node.outputs[k]!r}: one type is needed, of one rank "
                "and one dtype; make the branches agree, or the condition a constant"
            )
        types.append(node.services.sizes.outside(either))
    captured, result = Captured(node, [then, other]), _type_of_whole(types)
    condition = Var("condition", TensorType((), "bool"))
    taken, left_out = (
        Call(straight(node, what, graph, result), captured.handed_to(graph))
        for what, graph in (("then", then), ("else", other))
    )
    params = [condition, *captured.params.values()]
    functions = node.services.functions
    choice = functions.declare(f"{node.name} choice", [infer_expr(p) for p in params], result)
    functions.define(choice, params, If(condition, taken, left_out), node.name)
    return _fields(Call(choice, [scalar(node, node[0]), *captured.values]), len(types))


@converter("Loop")
def _loop(node: OnnxNode) -> list[RelayExpr]:
    return Loop(node).outputs()


class Loop:
    """One loop node on its way: carried values whose sizes change from run to run have no size in its type."""

    def __init__(self, node: OnnxNode):
        self.node, self.graph = node, node.attrs.graph("body")
        self.initial = [node[k] for k in range(2, len(node.inputs))]
        carried = len(self.graph.input) - 2
        if carried != len(self.initial) or len(self.graph.output) < 1 + carried:
            raise node.error(
                f"{len(self.initial)} values are carried, its body takes {carried} and gives "
                f"{len(self.graph.output) - 1}; a body takes as many, and gives at least as many, after the condition"
            )
        self.scans = len(self.graph.output) - 1 - carried
        if self.scans:
            raise node.error("scan outputs are not supported; carry the value instead")

    def outputs(self) -> list[RelayExpr]:
        """The carried values after the last run."""
        node, functions, sizes = self.node, self.node.services.functions, self.node.services.sizes
        types, inner, step = self._body([node.type_of(v) for v in self.initial])
        captured = Captured(node, [inner])
        count = Var("iteration", TensorType((), "int64"))
        going = Var("going", TensorType((), "bool"))
        limit = Var("limit", TensorType((), "int64"))
        carried = [Var(v.name, sizes.outside(t)) for v, t in zip(self.graph.input[2:], types, strict=True)]
        params = [count, going, limit, *carried, *captured.params.values()]
        result = _type_of_whole([infer_expr(c) for c in carried])
        loop = functions.declare(f"{node.name} loop", [infer_expr(p) for p in params], result)
        made = Call(step, [count, limit, *carried, *captured.handed_to(inner)])
        following = _fields(made, 2 + len(carried))
        again = Call(loop, [following[0], following[1], limit, *following[2:], *captured.params.values()])
        functions.define(loop, params, If(going, again, _whole(carried)), node.name)
        start = Call(loop, [constant(np.int64(0)), *self._entry(), *self.initial, *captured.values])
        return _fields(start, len(carried))

    def _entry(self) -> list[RelayExpr]:
        """Whether the first run happens, and how many there are at most."""
        limit = self.node.optional(0)
        condition = self.node.optional(1)
        most = constant(np.int64(LONGEST)) if limit is None else scalar(self.node, limit)
        runs: RelayExpr = relay.less(constant(np.int64(0)), most)
        return [runs if condition is None else relay.logical_and(scalar(self.node, condition), runs), most]

    def _body(self, types: Sequence[TensorType]) -> tuple[Sequence[TensorType], InnerGraph, GlobalVar]:
        """The types that hold in every run, and the body over them as a function of one step."""
        node, sizes = self.node, self.node.services.sizes
        while True:
            count, limit = (Var(name, TensorType((), "int64")) for name in ("iteration", "limit"))
            carried = [Var(v.name, sizes.named(t)) for v, t in zip(self.graph.input[2:], types, strict=True)]
            first = [_as_declared(count, self.graph, 0), _as_declared(constant(np.bool_(True)), self.graph, 1)]
            inner = node.services.inner(self.graph, [*first, *carried])  # type: ignore[list-item]
            found = [self._joined(k, p, t) for k, (p, t) in enumerate(zip(carried, inner.types[1:], strict=False))]
            kept = [t if same else sizes.outside(either) for t, (either, same) in zip(types, found, strict=True)]
            if kept == list(types):
                break
            types = kept
        after = relay.add(count, constant(np.int64(1)))
        going = relay.logical_and(scalar(node, inner.outputs[0]), relay.less(after, limit))
        whole = InnerGraph([count, limit, *carried], inner.captured, [after, going, *inner.outputs[1:]])
        return types, inner, straight(node, "body", whole)

    def _joined(self, index: int, param: Var, given: Type) -> tuple[TensorType, bool]:
        before = infer_expr(param)
        either = joined(before, given)
        if not isinstance(either, TensorType):
            raise self.node.error(
                f"its body takes {before} as {self.graph.input[2 + index].name!r} and gives {given} back: "
                "a carried value keeps its dtype and its rank"
            )
        return either, either == before


def _as_declared(value: RelayExpr, graph: GraphProto, index: int) -> RelayExpr:
    """*value*, a scalar, with the one dimension that some models declare for it."""
    rank = len(graph.input[index].type.tensor_type.shape.dim)
    return relay.reshape(value, [1]) if rank == 1 else value
