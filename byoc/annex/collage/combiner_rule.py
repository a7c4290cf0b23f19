"""Combiner rules: larger candidates from smaller ones, as FuseOps would fuse, until nothing new comes.

Work is in rounds: a rule looks at each pair of which one candidate is new. A union that cannot grow into a valid
sub-graph any more is dropped at once: where the path on to the one node through which all its values pass is too deep,
or leads through what no candidate holds. So the candidates are those of Collage's ``CombinePartitionRule`` without the
dead ends; their number is bounded by the depth alone. Source: Collage's ``combiner_rule.h``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from byoc.annex.collage.candidate_partition import CandidatePartition
from byoc.annex.collage.dataflow_graph import DataflowGraph, neighbours
from byoc.annex.collage.index_set import IndexSet, index_set, indexes_of
from byoc.annex.collage.sub_expr_kind import can_inline
from byoc.annex.collage.sub_graph import SubGraph, SubGraphConfig
from byoc.ir.op import OpPattern
from byoc.relay.expr import Constant, Tuple, TupleGetItem

_Key = tuple[IndexSet, frozenset[tuple[IndexSet, tuple[tuple[str, object], ...]]]]


class Candidates:
    """The candidates so far, and which of them are new in this round."""

    def __init__(self, graph: DataflowGraph, start: Iterable[CandidatePartition], config: SubGraphConfig):
        self.graph = graph
        self.all: list[CandidatePartition] = []
        self.first_new = 0
        self._config = config
        self._seen: set[_Key] = set()
        self._waiting: list[CandidatePartition] = []
        self._holding: list[list[int]] = [[] for _ in graph.nodes]
        self._coverable: IndexSet = 0
        for candidate in start:
            self._accept(candidate)
        for candidate in self._waiting:
            self._coverable |= candidate.sub_graph.inside
        self._coverable |= index_set(
            number for number, node in enumerate(graph.nodes) if isinstance(node, (Constant, Tuple, TupleGetItem))
        )

    def next_round(self) -> bool:
        """Take over what was added; False where nothing was."""
        self.first_new = len(self.all)
        for candidate in self._waiting:
            for number in indexes_of(candidate.sub_graph.inside):
                self._holding[number].append(len(self.all))
            self.all.append(candidate)
        self._waiting = []
        return self.first_new < len(self.all)

    def add(self, candidate: CandidatePartition) -> None:
        """Add *candidate* for the next round, unless it is known or cannot become valid."""
        if self._can_become_valid(candidate.sub_graph):
            self._accept(candidate)

    def _accept(self, candidate: CandidatePartition) -> None:
        sub_graph = candidate.sub_graph
        key = (sub_graph.inside, frozenset((n.sub_graph.inside, n.attrs) for n in sub_graph.nested))
        if key not in self._seen:
            self._seen.add(key)
            self._waiting.append(candidate)

    def _can_become_valid(self, sub_graph: SubGraph) -> bool:
        graph, config = self.graph, self._config
        needed = sub_graph.inside
        if config.max_exits == 1 and not config.allow_taps:
            meeting = graph.post_dominators.common(list(indexes_of(needed)))
            if meeting < 0:
                return False
            needed |= 1 << meeting
        between = self._reached(needed, downwards=True) & self._reached(needed, downwards=False)
        if (needed | between) & ~(self._coverable | sub_graph.inside):
            return False
        return not config.max_depth or SubGraph(graph, needed | between, kind=sub_graph.kind).depth <= config.max_depth

    def _reached(self, inside: IndexSet, downwards: bool) -> IndexSet:
        steps = self.graph.downstream if downwards else self.graph.upstream
        return neighbours(steps, inside)

    def holding(self, inside: IndexSet) -> list[int]:
        """The numbers of the candidates that hold any index in *inside*, ascending."""
        return sorted({number for index in indexes_of(inside) for number in self._holding[index]})

    def touching(self, upstream: int) -> Iterator[int]:
        """The candidates that use something of *upstream*, for pairs that were not looked at in an earlier round."""
        sub_graph = self.all[upstream].sub_graph
        for number in self.holding(sub_graph.outputs):
            if max(number, upstream) >= self.first_new and sub_graph.is_touching(self.all[number].sub_graph):
                yield number


class CombinerRule:
    """The root of all combiner rules."""

    def combine(self, candidates: Candidates) -> None:
        """Add to *candidates* what the rule makes of those that are new."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it combines")


@dataclass(frozen=True)
class ByKindSimpleCombinerRule:
    """Fires for an upstream and a downstream candidate that are at most of these kinds."""

    upstream_kind: OpPattern
    downstream_kind: OpPattern

    def fires(self, upstream: SubGraph, downstream: SubGraph) -> bool:
        """True when the two may be combined."""
        return upstream.kind <= self.upstream_kind and downstream.kind <= self.downstream_kind


@dataclass(frozen=True)
class AllSimpleCombinerRule(CombinerRule):
    """Two candidates of which one uses the other, where any of *simple_rules* fires."""

    simple_rules: Sequence[ByKindSimpleCombinerRule]

    def combine(self, candidates: Candidates) -> None:
        for number in range(len(candidates.all)):
            upstream = candidates.all[number]
            for other in candidates.touching(number):
                downstream = candidates.all[other]
                if any(rule.fires(upstream.sub_graph, downstream.sub_graph) for rule in self.simple_rules):
                    candidates.add(upstream.disjoint_union(downstream))


@dataclass(frozen=True)
class TupleArgCombinerRule(CombinerRule):
    """An injective candidate that takes a tuple, the tuple, and an injective candidate for each of its fields."""

    def combine(self, candidates: Candidates) -> None:
        graph = candidates.graph
        for candidate in list(candidates.all):
            sub_graph = candidate.sub_graph
            if sub_graph.kind > OpPattern.INJECTIVE:
                continue
            for number in indexes_of(sub_graph.inputs):
                node = graph.nodes[number]
                if isinstance(node, Tuple) and node.fields and not graph.outputs[number] & ~sub_graph.inside:
                    whole = _singleton(candidate, graph, number).disjoint_union(candidate)
                    for fields in itertools.product(*(_producers(candidates, graph.index[f]) for f in node.fields)):
                        _add_together(candidates, fields, whole)


def _producers(candidates: Candidates, number: int) -> list[CandidatePartition]:
    """The injective candidates whose only exit is the node *number*."""
    holding = (candidates.all[k] for k in candidates.holding(1 << number))
    return [c for c in holding if c.sub_graph.exits == 1 << number and c.sub_graph.kind <= OpPattern.INJECTIVE]


def _add_together(candidates: Candidates, fields: Iterable[CandidatePartition], whole: CandidatePartition) -> None:
    """Add the union of *fields* (the same may stand twice) and *whole*, where they are disjoint."""
    for field in dict.fromkeys(fields):
        if field.sub_graph.inside & whole.sub_graph.inside:
            return
        whole = field.disjoint_union(whole)
    candidates.add(whole)


@dataclass(frozen=True)
class TupleProjCombinerRule(CombinerRule):
    """An injective candidate that makes a tuple, and a projection of it."""

    def combine(self, candidates: Candidates) -> None:
        graph = candidates.graph
        for candidate in candidates.all[candidates.first_new :]:
            if candidate.sub_graph.kind <= OpPattern.INJECTIVE:
                for number in indexes_of(candidate.sub_graph.outputs):
                    if isinstance(graph.nodes[number], TupleGetItem):
                        candidates.add(candidate.disjoint_union(_singleton(candidate, graph, number)))


@dataclass(frozen=True)
class ConstantCombinerRule(CombinerRule):
    """A candidate and the constants that it alone uses."""

    def combine(self, candidates: Candidates) -> None:
        graph = candidates.graph
        for candidate in candidates.all[candidates.first_new :]:
            inside = candidate.sub_graph.inside
            for number in indexes_of(candidate.sub_graph.inputs):
                node = graph.nodes[number]
                if isinstance(node, Constant) and not can_inline(node) and not graph.outputs[number] & ~inside:
                    candidate = _singleton(candidate, graph, number).disjoint_union(candidate)
            if candidate.sub_graph.inside != inside:
                candidates.add(candidate)


def _singleton(like: CandidatePartition, graph: DataflowGraph, number: int) -> CandidatePartition:
    """The candidate of one node, for the target of *like*."""
    sub_graph = SubGraph(graph, 1 << number)
    return CandidatePartition(sub_graph.label, sub_graph, like.spec)


def combine_candidates(
    graph: DataflowGraph,
    start: Iterable[CandidatePartition],
    rules: Sequence[CombinerRule],
    config: SubGraphConfig,
) -> list[CandidatePartition]:
    """*start*, and all that *rules* make of it that may still become valid under *config*."""
    candidates = Candidates(graph, start, config)
    while candidates.next_round():
        for rule in rules:
            rule.combine(candidates)
    return candidates.all
