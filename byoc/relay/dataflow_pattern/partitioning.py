"""Partitioning: each disjoint match becomes a function that is called in its place. Source: ``DFPattern.partition``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping

from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.ir.registry import register_func
from byoc.ir.span import merge_spans
from byoc.relay.adt import Match
from byoc.relay.dataflow_pattern import patterns as p
from byoc.relay.dataflow_pattern.grouper import Grouper, MatchedGroup
from byoc.relay.dataflow_pattern.indexed_graph import PARTITIONED, IndexedGraph
from byoc.relay.dataflow_pattern.mutable_graph import MutableGraph
from byoc.relay.expr import Call, Constant, Function, If, Let, Tuple, TupleGetItem, Var
from byoc.relay.match_check import MatchCheck, truth
from byoc.relay.traverse import children, keep_type, typed_function, typed_rebuild


def _call_name(call: Call) -> str:
    return f"{call.op.name}_" if isinstance(call.op, Op) else "Call_"


# node class -> what it adds to the name of the pattern that a function was made from
_NAMES: dict[type, Callable[..., str]] = {
    Call: _call_name,
    Tuple: lambda e: "Tuple_",
    TupleGetItem: lambda e: f"TupleGetItem{e.index}_",
    Function: lambda e: "Function",
    Let: lambda e: "Let_",
    If: lambda e: "If_",
    Match: lambda e: "Match_",
}


def holds(check: p.Check | MatchCheck, group: MatchedGroup, attrs: Mapping[str, object]) -> bool:
    """Whether *check* accepts the match *group*, whose function would carry *attrs*."""
    if isinstance(check, MatchCheck):
        return check.takes(composite_call(group, attrs, {}))
    return truth(check, group.root, "it")


def partition_pattern(
    pattern: p.DFPattern,
    expr: RelayExpr,
    attrs: Mapping[str, object] | None = None,
    check: p.Check | None = None,
) -> RelayExpr:
    """*expr* with each disjoint match of *pattern* that *check* accepts made a function, called in its place.

    The function carries *attrs* and ``PartitionedFromPattern``; its parameters have no types, as in Relay. *expr*
    itself comes back where nothing matched.
    """
    return partition_graph(pattern, IndexedGraph(expr), attrs, check or (lambda pre: True), keep_types=False)


def partition_graph(
    pattern: p.DFPattern,
    graph: IndexedGraph,
    attrs: Mapping[str, object] | None,
    check: p.Check,
    keep_types: bool = True,
) -> RelayExpr:
    """:func:`partition_pattern` of a graph that is indexed already; *keep_types*: what is made has types at once."""
    if isinstance(pattern, p.FunctionPattern):
        warnings.warn("a function pattern cannot be partitioned: match the call of the function", stacklevel=3)
        return graph.root
    accepted = _accepted(pattern, graph, check, attrs or {})
    if not accepted:
        return graph.root
    changed: dict[RelayExpr, RelayExpr] = {}
    for node in graph.nodes:
        group = accepted.get(node)
        if group is not None:
            changed[node] = composite_call(group, attrs or {}, changed, keep_types)
            continue
        inner = children(node)
        if not changed.keys().isdisjoint(inner):
            changed[node] = typed_rebuild(node, [changed.get(c, c) for c in inner])
    return changed.get(graph.root, graph.root)


def partition_in_place(pattern: p.DFPattern, graph: MutableGraph, attrs: Mapping[str, object], check: p.Check) -> bool:
    """Replace each disjoint match of *pattern* that *check* accepts in *graph*; True where there was one."""
    if isinstance(pattern, p.FunctionPattern):
        warnings.warn("a function pattern cannot be partitioned: match the call of the function", stacklevel=3)
        return False
    changed: dict[RelayExpr, RelayExpr] = {}
    for root, group in _accepted(pattern, graph, check, attrs).items():
        call = composite_call(group, attrs, changed, keep_types=True)
        graph.replace(group.interior, call.args, call)
        changed[root] = call
    return bool(changed)


def _accepted(
    pattern: p.DFPattern, graph: IndexedGraph, check: p.Check, attrs: Mapping[str, object]
) -> dict[RelayExpr, MatchedGroup]:
    """The groups that *check* accepts, by root, in the order of the graph."""
    groups = Grouper(pattern, graph).groups
    return {n: groups[n] for n in sorted(groups, key=graph.index.__getitem__) if holds(check, groups[n], attrs)}


def composite_call(
    group: MatchedGroup, attrs: Mapping[str, object], changed: dict[RelayExpr, RelayExpr], keep_types: bool = True
) -> Call:
    """The call of a function that computes what *group* does; *changed* says what became of its inputs."""
    inside: dict[RelayExpr, RelayExpr] = {}
    for node, var in group.inputs.items():
        if keep_types:
            var._checked_type = node._checked_type
        inside[node] = inside[changed.get(node, node)] = var
    for node in group.interior:
        inside[node] = typed_rebuild(node, [inside[c] for c in children(node)])
    name = "".join(_NAMES[type(n)](n) for n in group.interior if type(n) in _NAMES)
    span = merge_spans(n.span for n in group.interior if not isinstance(n, (Constant, Var)))
    func = Function(tuple(group.inputs.values()), inside[group.root], attrs={PARTITIONED: name, **attrs}, span=span)
    call = Call(typed_function(func), [changed.get(node, node) for node in group.inputs], span=span)
    keep_type(group.root, call)
    return call


register_func("relay.dataflow_pattern.partition", partition_pattern)
