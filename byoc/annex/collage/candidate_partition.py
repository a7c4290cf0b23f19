"""Candidates: sub-graphs that a partition rule proposes for a target, with their costs. Source: ``CandidatePartition``.

Invariant: a candidate does not change but for its cost, which is filled in when it is first asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Protocol

from byoc.annex.collage.candidate_cache import CandidateFunctionCache, outline_compiler_functions
from byoc.annex.collage.cost_estimator import CostEstimator
from byoc.annex.collage.dataflow_graph import DataflowGraph
from byoc.annex.collage.extraction import extract_function, rewrite_sub_graphs
from byoc.annex.collage.sub_expr_kind import union_labels
from byoc.annex.collage.sub_graph import PRIMITIVE, SubGraph, SubGraphConfig
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.target import Target
from byoc.ir.types import TupleType, Type
from byoc.relay.expr import Call, Function, Tuple, Var
from byoc.relay.traverse import substitute, typed_function

_COALESCED = SubGraphConfig(max_exits=0, allow_taps=True, max_depth=0)


class Specification(Protocol):
    """What a candidate needs to know of the target that it is for; ``PartitionSpec`` is one."""

    @property
    def spec_name(self) -> str:
        """The name by which reports call it."""

    @property
    def target(self) -> Target:
        """What it is for."""

    @property
    def is_external(self) -> bool:
        """True where an external compiler generates the code."""

    def validate_sub_graph(self, function: Function) -> str:
        """Why the target refuses *function*; empty where it does not."""


class CandidatePartition:
    """*sub_graph* for the target of *spec*; ``cost`` is in seconds, None where it is not known yet."""

    def __init__(self, rule_name: str, sub_graph: SubGraph, spec: Specification, cost: float | None = None):
        self.rule_name = rule_name
        self.sub_graph = sub_graph
        self.spec = spec
        self.cost = cost

    @property
    def partition_spec_name(self) -> str:
        """The name of the target's specification."""
        return self.spec.spec_name

    def with_rule_name(self, rule_name: str) -> CandidatePartition:
        """The same under another name."""
        return CandidatePartition(rule_name, self.sub_graph, self.spec, self.cost)

    def with_sub_graph(self, sub_graph: SubGraph) -> CandidatePartition:
        """The same rule's candidate of another sub-graph, whose cost is not known."""
        return CandidatePartition(self.rule_name, sub_graph, self.spec)

    def disjoint_union(self, that: CandidatePartition) -> CandidatePartition:
        """The candidate of both sub-graphs, which are of one specification."""
        name = union_labels(self.rule_name, that.rule_name)
        return CandidatePartition(name, self.sub_graph.disjoint_union(that.sub_graph), self.spec)

    def estimated_cost(self, estimator: CostEstimator, cache: CandidateFunctionCache) -> float:
        """Seconds that the candidate takes, by *cache* or else by *estimator*; infinity where the target refuses it."""
        if self.cost is None:
            function = eta_expand_tuples(extract_function(self.sub_graph))
            if self.spec.validate_sub_graph(function):
                self.cost = math.inf
            else:
                self.cost = self._cached_cost(function, estimator, cache)
        return self.cost

    def _cached_cost(self, function: Function, estimator: CostEstimator, cache: CandidateFunctionCache) -> float:
        entry = cache.entry(self.sub_graph.label, _primitive_function(function))
        if entry.cost is None:
            mod = outline_compiler_functions(IRModule.from_expr(function), cache)
            entry.cost = estimator.estimate(mod, self.spec.target)
        return entry.cost

    def __repr__(self) -> str:
        return f"CandidatePartition({self.spec.spec_name}, {self.rule_name!r}, {self.sub_graph!r}, cost={self.cost})"


def _primitive_function(function: Function) -> Function:
    """The function with ``Primitive`` that *function* only calls, else *function*: the one that gets a name."""
    body = function.body
    if isinstance(body, Call) and isinstance(body.op, Function) and body.op.attrs.get(PRIMITIVE):
        return body.op
    return function


def eta_expand_tuples(function: Function) -> Function:
    """*function* with a parameter for each tensor in place of those that are tuples."""
    if not any(isinstance(param.checked_type, TupleType) for param in function.params):
        return function
    params: list[Var] = []
    values: dict[RelayExpr, RelayExpr] = {}
    for param in function.params:
        values[param] = _expanded(param.name_hint, param.checked_type, params)
    body = substitute(function.body, values)
    body._checked_type = function.body.checked_type
    made = Function(params, body, function.ret_type, function.type_params, function.attrs, function.span)
    return typed_function(made)


def _expanded(name: str, ty: Type, params: list[Var]) -> RelayExpr:
    """A new parameter of type *ty*, or a tuple of those of its fields; they are added to *params*."""
    if not isinstance(ty, TupleType):
        params.append(Var(name, ty))
        return params[-1]
    made = Tuple([_expanded(f"{name}_{index}", field, params) for index, field in enumerate(ty.fields)])
    made._checked_type = ty
    return made


def max_coalesce(candidates: Iterable[CandidatePartition]) -> list[CandidatePartition]:
    """*candidates* where those of one external compiler that touch are one, as long as that is valid.

    Several exits and exits that are used inside are allowed here: nothing is fused into one kernel any more.
    """
    pending = sorted(candidates, key=lambda c: c.sub_graph.first_inside_index)
    result: list[CandidatePartition] = []
    gone: set[int] = set()
    for number, base in enumerate(pending):
        if number in gone:
            continue
        if base.spec.is_external:
            base = _absorb(base, pending, number, gone)
        result.append(base)
    return result


def _absorb(
    base: CandidatePartition, pending: Sequence[CandidatePartition], number: int, gone: set[int]
) -> CandidatePartition:
    """*base* with all that can be added to it from behind *number*, until nothing more can."""
    grew = True
    while grew:
        grew = False
        for other in range(number + 1, len(pending)):
            candidate = pending[other]
            if other in gone or candidate.spec is not base.spec or not _touch(base.sub_graph, candidate.sub_graph):
                continue
            union = base.disjoint_union(candidate)
            if union.sub_graph.is_valid(_COALESCED):
                base, grew = union, True
                gone.add(other)
    return base


def _touch(one: SubGraph, other: SubGraph) -> bool:
    return one.is_touching(other) or other.is_touching(one)


def rewrite_candidates(graph: DataflowGraph, candidates: Iterable[CandidatePartition]) -> RelayExpr:
    """The expression of *graph* where each of *candidates* (disjoint) is called as a function."""
    return rewrite_sub_graphs(graph, [candidate.sub_graph for candidate in candidates])
