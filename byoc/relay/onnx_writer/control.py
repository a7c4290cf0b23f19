"""Decisions and loops: Relay's ``If`` as ONNX ``If``, a function that calls itself as ONNX ``Loop``.

The importer makes such functions of If, Loop and Scan (``byoc/relay/frontend/onnx/control``). A loop is a function
whose body is an ``If``: of one branch, which calls the function again, and of what it gives in the end. What the call
hands on as it is stands around the loop; a sequence that each run puts one element into is a scan output. Other
functions are written in the place of their call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.types import TensorType, TupleType, Type
from byoc.relay.analysis.operator_calls import calls
from byoc.relay.expr import Call, Constant, Function, If, Var
from byoc.relay.onnx_writer.graph import BEYOND, GraphWriter, Port, ports_of
from byoc.relay.onnx_writer.rules import needs
from byoc.relay.traverse import children, post_order

Names = str | list[str]
Write = Callable[[RelayExpr, dict[RelayExpr, Names], GraphWriter], Names]
NO_VALUE = ""  # the name of an empty sequence, which has no node until something reads it
COLLECTED = "\0"  # the name of a sequence in a loop, which stands for the scan output that is made of it


def flat(names: Sequence[Names]) -> list[str]:
    """*names*, those of tuples one after another."""
    return [name for given in names for name in ([given] if isinstance(given, str) else given)]


def written_if(node: If, names: dict[RelayExpr, Names], graph: GraphWriter, write: Write) -> Names:
    """The names of what one of two branches gives, which read what they need from around them."""
    types = ports_of(node.checked_type)
    branches = {}
    for kind, branch in (("then_branch", node.true_branch), ("else_branch", node.false_branch)):
        inner = graph.inside()
        inner.holds[graph.source(str(names[node.cond]))] = kind == "then_branch"
        found = flat([write(branch, dict(names), inner)])
        branches[kind] = inner.as_graph(
            kind, [], [(inner.value("Identity", f), t) for f, t in zip(found, types, strict=True)]
        )
    made = graph.node("If", [str(names[node.cond])], len(types), **branches)
    return _noted(made, node.checked_type, graph)


def _noted(made: list[str], ty: Type, graph: GraphWriter) -> Names:
    for name, port in zip(made, ports_of(ty), strict=True):
        graph.note(name, port)
    return made if isinstance(ty, TupleType) else made[0]


def written_call(call: Call, args: Sequence[Names], graph: GraphWriter, write: Write) -> Names:
    """The names of what the function gives that *call* calls by its global name."""
    assert isinstance(call.op, GlobalVar)
    function = graph.functions.get(call.op)
    needs(function is not None, f"a call of @{call.op.name_hint}, which is no function of the model")
    assert function is not None
    if any(_calls(node, call.op) for node in post_order(function.body, children)):
        return _Loop.of(call.op, function).written(args, graph, write)
    names: dict[RelayExpr, Names] = dict(zip(function.params, args, strict=True))
    for param, name in names.items():
        for each, ty in zip(flat([name]), ports_of(param.checked_type), strict=True):
            graph.note(each, ty, anew=True)
    return write(function.body, names, graph)


def _calls(node: RelayExpr, var: GlobalVar) -> bool:
    return isinstance(node, Call) and isinstance(node.op, GlobalVar) and node.op == var


@dataclass(frozen=True)
class _Loop:
    """A function that calls itself, parameter by parameter: what the next run gets for it."""

    function: Function
    again: Sequence[RelayExpr]
    going: Var
    ends: RelayExpr

    @staticmethod
    def of(var: GlobalVar, function: Function) -> _Loop:
        """The loop of *function*, which *var* names. Raises UnwritableError for another form."""
        body = function.body
        form = f"@{var.name_hint}, which calls itself in another form than that of a loop"
        needs(isinstance(body, If) and isinstance(body.cond, Var) and _calls(body.true_branch, var), form)
        assert isinstance(body, If) and isinstance(body.true_branch, Call) and isinstance(body.cond, Var)
        parts = (*body.true_branch.args, body.false_branch)
        needs(not any(_calls(node, var) for part in parts for node in post_order(part, children)), form)
        needs(body.cond in function.params, form)
        return _Loop(function, body.true_branch.args, body.cond, body.false_branch)

    def written(self, args: Sequence[Names], graph: GraphWriter, write: Write) -> Names:
        """The names of what the loop gives, which begins with *args*."""
        inner, params = graph.inside(), self.function.params
        iteration, going = inner.name("iteration"), inner.name("going")
        names: dict[RelayExpr, Names] = {}
        carried, collected = [], []
        for param, again, given in zip(params, self.again, args, strict=True):
            if again is param:
                names[param] = given
            elif param is self.going:
                names[param] = going
            elif isinstance(param.checked_type, TensorType):
                names[param] = inner.name("carried")
                inner.note(str(names[param]), param.checked_type, anew=True)
                carried.append((param, again, str(given)))
            else:
                needs(given == NO_VALUE, "a sequence that begins with elements, or that a loop carries")
                names[param] = COLLECTED
                collected.append((param, _put(param, again)))
        around: dict[RelayExpr, Names] = {**names, self.going: graph.constant(np.array(False))}
        places = [params.index(self.going)]
        wanted = [self.again[places[0]], *(again for _, again, _ in carried), *(value for _, value in collected)]
        found = [inner.value("Identity", str(write(value, names, inner))) for value in wanted]
        types = [port for value in wanted for port in ports_of(value.checked_type)]
        needs(len(types) == len(found), "a tuple that a loop carries")
        inputs: list[tuple[str, Port]] = [(iteration, TensorType((), "int64")), (going, TensorType((), "bool"))]
        inputs += [(str(names[param]), ports_of(param.checked_type)[0]) for param, _, _ in carried]
        body = inner.as_graph("body", inputs, list(zip(found, types, strict=True)))
        given = ["", str(args[places[0]]), *(first for _, _, first in carried)]
        made = graph.node("Loop", given, len(carried) + len(collected), body=body)
        for (param, _, _), name in zip(carried, made, strict=False):
            around[param] = name
            graph.note(name, ports_of(param.checked_type)[0], anew=True)
        scans = dict(zip((param for param, _ in collected), made[len(carried) :], strict=True))
        backward = {param for param, _ in collected if _is_backward(self.again[params.index(param)])}
        for end in post_order(self.ends, children):
            if calls(end, "sequence.concat") and isinstance(end, Call) and end.args[0] in scans:
                kept = end.args[0]
                around[end] = _joined(end, scans[kept], kept in backward, graph)
        return write(self.ends, around, graph)


def _put(param: Var, again: RelayExpr) -> RelayExpr:
    """What each run puts into the sequence *param*. Raises UnwritableError for something else that becomes of it."""
    needs(calls(again, "sequence.insert") and again.args[0] is param, "a sequence that a loop changes")
    assert isinstance(again, Call)
    if len(again.args) == 3:
        place = again.args[2]
        first = isinstance(place, Constant) and not place.data.numpy().any()
        needs(first, "a sequence that a loop puts elements into the middle of")
    return again.args[1]


def _is_backward(again: RelayExpr) -> bool:
    return isinstance(again, Call) and len(again.args) == 3


def _joined(end: Call, scan: str, backward: bool, graph: GraphWriter) -> str:
    """The elements of a scan output, which stand along a new first axis, as *end* joins them."""
    needs(end.attrs.new_axis, "elements of a loop that are joined along an axis that they have")
    assert isinstance(end.checked_type, TensorType)
    rank = len(end.checked_type.shape)
    axis = int(end.attrs.axis) % rank
    if backward:
        bounds = ([-1], [-BEYOND], [0], [-1])
        scan = graph.value("Slice", scan, *map(graph.constant, bounds))
    if axis:
        scan = graph.value("Transpose", scan, perm=[*range(1, axis + 1), 0, *range(axis + 1, rank)])
    graph.note(scan, end.checked_type)
    return scan


__all__ = ["COLLECTED", "NO_VALUE", "Names", "flat", "written_call", "written_if"]
