"""Collage: the cheapest cut of a graph across several compilers, found by search over measured costs.

Each target's rules propose sub-graphs that it could run; an estimator says what each costs; the search picks disjoint
ones that cover the graph. Source: ``tvm.relay.collage`` and Jeon et al., "Collage: Seamless Integration of Deep
Learning Backends with Automatic Placement" (2022).
"""

from byoc.annex.collage.candidate_cache import CandidateFunctionCache
from byoc.annex.collage.candidate_partition import CandidatePartition
from byoc.annex.collage.cost_estimator import CostEstimator, CustomCostEstimator, MockCostEstimator
from byoc.annex.collage.dataflow_graph import DataflowGraph
from byoc.annex.collage.gather_partition_specs import gather_partition_specs, make_byoc_partition_rule
from byoc.annex.collage.partition_rule import (
    CombinePartitionRule,
    CompositePartitionRule,
    DFPatternPartitionRule,
    HostPartitionRule,
    OnlyValidPartitionRule,
    OpCallByKindPartitionRule,
    PartitionRule,
    PrimitivePartitionRule,
    UnionPartitionRule,
)
from byoc.annex.collage.partition_spec import PartitionSpec
from byoc.annex.collage.partitioner import Partitioner
from byoc.annex.collage.sub_graph import NestedSubGraph, SubGraph, SubGraphConfig

__all__ = [
    "CandidateFunctionCache",
    "CandidatePartition",
    "CombinePartitionRule",
    "CompositePartitionRule",
    "CostEstimator",
    "CustomCostEstimator",
    "DFPatternPartitionRule",
    "DataflowGraph",
    "HostPartitionRule",
    "MockCostEstimator",
    "NestedSubGraph",
    "OnlyValidPartitionRule",
    "OpCallByKindPartitionRule",
    "PartitionRule",
    "PartitionSpec",
    "Partitioner",
    "PrimitivePartitionRule",
    "SubGraph",
    "SubGraphConfig",
    "UnionPartitionRule",
    "gather_partition_specs",
    "make_byoc_partition_rule",
]
