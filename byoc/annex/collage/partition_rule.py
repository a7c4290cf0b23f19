"""Partition rules: which sub-graphs of a graph a target could run.

A rule proposes candidates, or changes those of another rule: they are built up from what matches or from single
calls, combined, checked and wrapped in functions. Source: Collage's ``partition_rule.h``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from byoc.annex.collage.candidate_partition import CandidatePartition, Specification
from byoc.annex.collage.combiner_rule import CombinerRule, combine_candidates
from byoc.annex.collage.dataflow_graph import DataflowGraph
from byoc.annex.collage.index_set import IndexSet
from byoc.annex.collage.sub_expr_kind import can_inline, must_be_lowered, nest_labels, sub_expr_kind_and_label
from byoc.annex.collage.sub_graph import COMPILER, COMPOSITE, PRIMITIVE, SubGraph, SubGraphConfig
from byoc.ir.expr import RelayExpr
from byoc.ir.op import OpPattern
from byoc.relay.dataflow_pattern.matcher import Matcher, Memo
from byoc.relay.dataflow_pattern.pattern_graph import ArgumentFilter, root_keys
from byoc.relay.dataflow_pattern.patterns import DFPattern, WildcardPattern
from byoc.relay.expr import Call

Predicate = Callable[[RelayExpr], object]


def always(expr: RelayExpr) -> bool:
    """Every match is fine."""
    return True


@dataclass(frozen=True, eq=False)
class PartitionRule:
    """The root of all rules."""

    rule_name: str

    def all_candidates(self, graph: DataflowGraph, spec: Specification) -> list[CandidatePartition]:
        """What the rule proposes of *graph* for the target of *spec*."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it proposes")


@dataclass(frozen=True, eq=False)
class DFPatternPartitionRule(PartitionRule):
    """A candidate for each match of *pattern* that *predicate* accepts, overlapping ones too."""

    pattern: DFPattern
    predicate: Predicate = always

    def all_candidates(self, graph: DataflowGraph, spec: Specification) -> list[CandidatePartition]:
        matcher = Matcher(graph.matching)
        quick = ArgumentFilter(self.pattern)
        found: list[CandidatePartition] = []
        roots = [graph.matching.nodes[n] for n in graph.matching.candidates(root_keys(self.pattern))]
        for root in sorted(roots, key=graph.index.__getitem__):
            if quick.admits(root) and matcher.match(self.pattern, root) and self.predicate(root):
                inside = matched_indexes(graph, matcher.memo)
                if inside:
                    found.append(CandidatePartition(self.rule_name, SubGraph(graph, inside), spec))
        return found


def matched_indexes(graph: DataflowGraph, memo: Memo) -> IndexSet:
    """The nodes that a match is made of: not what a wildcard matched, nor what can stand in any function."""
    inside = 0
    for part, matched in memo.items():
        if not isinstance(part, WildcardPattern):
            for node in matched:
                if not can_inline(node):
                    inside |= 1 << graph.index[node]
    return inside


@dataclass(frozen=True, eq=False)
class _Wrapping(PartitionRule):
    """A rule over the candidates of another."""

    sub_rule: PartitionRule


@dataclass(frozen=True, eq=False)
class CompositePartitionRule(_Wrapping):
    """The candidates of *sub_rule*, each a function with the attribute ``Composite``: the name of the rule."""

    def all_candidates(self, graph: DataflowGraph, spec: Specification) -> list[CandidatePartition]:
        return [
            candidate.with_sub_graph(candidate.sub_graph.with_attrs({COMPOSITE: self.rule_name})).with_rule_name(
                nest_labels(self.rule_name, candidate.rule_name)
            )
            for candidate in self.sub_rule.all_candidates(graph, spec)
        ]


@dataclass(frozen=True, eq=False)
class PrimitivePartitionRule(_Wrapping):
    """The candidates of *sub_rule*, each a function with ``Primitive``, and ``Compiler`` for an external compiler."""

    def all_candidates(self, graph: DataflowGraph, spec: Specification) -> list[CandidatePartition]:
        attrs: dict[str, object] = {PRIMITIVE: 1}
        if spec.is_external:
            attrs[COMPILER] = spec.target.kind.name
        return [
            candidate.with_sub_graph(candidate.sub_graph.with_attrs(attrs)).with_rule_name(
                nest_labels(self.rule_name, candidate.rule_name)
            )
            for candidate in self.sub_rule.all_candidates(graph, spec)
        ]


@dataclass(frozen=True, eq=False)
class UnionPartitionRule(PartitionRule):
    """The candidates of all of *sub_rules*, in their order."""

    sub_rules: Sequence[PartitionRule]

    def all_candidates(self, graph: DataflowGraph, spec: Specification) -> list[CandidatePartition]:
        return [
            candidate.with_rule_name(nest_labels(self.rule_name, candidate.rule_name))
            for rule in self.sub_rules
            for candidate in rule.all_candidates(graph, spec)
        ]


@dataclass(frozen=True, eq=False)
class OpCallByKindPartitionRule(PartitionRule):
    """A candidate for each call of an operator that can be fused with something."""

    def all_candidates(self, graph: DataflowGraph, spec: Specification) -> list[CandidatePartition]:
        found: list[CandidatePartition] = []
        for number, node in enumerate(graph.nodes):
            if isinstance(node, Call) and sub_expr_kind_and_label(node)[0] <= OpPattern.OUT_ELEMWISE_FUSABLE:
                sub_graph = SubGraph(graph, 1 << number)
                name = nest_labels(self.rule_name, sub_graph.label)
                found.append(CandidatePartition(name, sub_graph, spec))
        return found


@dataclass(frozen=True, eq=False)
class OpaqueCallPartitionRule(PartitionRule):
    """A candidate for each call that must be lowered and that nothing fuses with: it stands alone."""

    def all_candidates(self, graph: DataflowGraph, spec: Specification) -> list[CandidatePartition]:
        found: list[CandidatePartition] = []
        for number, node in enumerate(graph.nodes):
            if must_be_lowered(node) and sub_expr_kind_and_label(node)[0] > OpPattern.OUT_ELEMWISE_FUSABLE:
                sub_graph = SubGraph(graph, 1 << number)
                name = nest_labels(self.rule_name, sub_graph.label)
                found.append(CandidatePartition(name, sub_graph, spec))
        return found


@dataclass(frozen=True, eq=False)
class CombinePartitionRule(_Wrapping):
    """The candidates of *sub_rule*, and all that *combiner_rules* make of them.

    What can no longer become valid under *config* (by default: one exit without taps, up to depth 4) is left out.
    """

    combiner_rules: Sequence[CombinerRule]
    config: SubGraphConfig = SubGraphConfig(max_exits=1, allow_taps=False, max_depth=4)

    def all_candidates(self, graph: DataflowGraph, spec: Specification) -> list[CandidatePartition]:
        start = self.sub_rule.all_candidates(graph, spec)
        return [
            candidate.with_rule_name(nest_labels(self.rule_name, candidate.rule_name))
            for candidate in combine_candidates(graph, start, self.combiner_rules, self.config)
        ]


@dataclass(frozen=True, eq=False)
class OnlyValidPartitionRule(_Wrapping):
    """The candidates of *sub_rule* that are valid under *config*."""

    config: SubGraphConfig

    def all_candidates(self, graph: DataflowGraph, spec: Specification) -> list[CandidatePartition]:
        return [
            candidate.with_rule_name(nest_labels(self.rule_name, candidate.rule_name))
            for candidate in self.sub_rule.all_candidates(graph, spec)
            if candidate.sub_graph.is_valid(self.config)
        ]


@dataclass(frozen=True, eq=False)
class HostPartitionRule(PartitionRule):
    """A candidate, which costs nothing, for each node that no target has to generate code for."""

    def all_candidates(self, graph: DataflowGraph, spec: Specification) -> list[CandidatePartition]:
        found: list[CandidatePartition] = []
        for number, node in enumerate(graph.nodes):
            if not must_be_lowered(node):
                sub_graph = SubGraph(graph, 1 << number)
                found.append(CandidatePartition(nest_labels(self.rule_name, sub_graph.label), sub_graph, spec, 0.0))
        return found
