"""Specifications: a target, and the rule that finds what it could run. Source: Collage's ``PartitionSpec``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from byoc.annex.collage.candidate_partition import CandidatePartition
from byoc.annex.collage.dataflow_graph import DataflowGraph
from byoc.annex.collage.partition_rule import PartitionRule
from byoc.ir.target import Target
from byoc.relay.expr import Function

HOST_SPEC_NAME = "host"


def accept(function: Function) -> str:
    """Every function is fine."""
    return ""


@dataclass(frozen=True, eq=False)
class PartitionSpec:
    """*rule* proposes candidates for *target*; *validate* says why a function is refused, or nothing."""

    spec_name: str
    target: Target
    rule: PartitionRule
    validate: Callable[[Function], str] = accept

    @property
    def is_external(self) -> bool:
        """True where an external compiler generates the code."""
        return self.target.is_external_codegen

    @property
    def compiler(self) -> str:
        """The name of the external compiler."""
        return self.target.kind.name

    def validate_sub_graph(self, function: Function) -> str:
        """Why the target refuses *function*; empty where it does not."""
        return self.validate(function)

    def all_candidates(self, graph: DataflowGraph) -> list[CandidatePartition]:
        """What *target* could run of *graph*, by the rule."""
        return self.rule.all_candidates(graph, self)
