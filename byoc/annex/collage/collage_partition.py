"""CollagePartition: regions for several compilers by the least measured cost; and the passes that its tests use.

Requires types, which are inferred here. Ensures: functions ``collage_<compiler>_<label>`` with ``Primitive``,
``Compiler`` and ``global_symbol``, whose composites carry the names of the pattern tables. Source:
``relay.transform.CollagePartition``, ``CapturePostDfsIndexInSpans`` and ``relay.collage.PartitionForTesting``.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.annex.collage.candidate_cache import CandidateFunctionCache, outline_compiler_functions
from byoc.annex.collage.cost_estimator import CostEstimator
from byoc.annex.collage.dataflow_graph import DataflowGraph
from byoc.annex.collage.extraction import rewrite_sub_graphs
from byoc.annex.collage.gather_partition_specs import CompilationTargets, gather_partition_specs
from byoc.annex.collage.index_set import IndexSet, index_set
from byoc.annex.collage.partitioner import Partitioner
from byoc.annex.collage.sub_graph import COMPILER, COMPOSITE, NestedSubGraph, SubGraph, SubGraphConfig
from byoc.errors import UserError
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.passes.pass_info import REWRITES
from byoc.ir.passes.transform import ModulePass, PassContext, PassInfo
from byoc.ir.registry import register_func
from byoc.ir.span import SourceName, Span
from byoc.relay.analysis.module_types import infer_module
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Function, Var
from byoc.relay.narrowing import as_function
from byoc.relay.transform.base.infer_type import FunctionPass, is_optimizable
from byoc.relay.traverse import children, rewrite

INDEX_SOURCE = SourceName("index")


def CollagePartition(config: CompilationTargets, cost_estimator: CostEstimator | None = None) -> ModulePass:
    """The pass that gives each target of *config* the share that makes the whole cheapest, by *cost_estimator*.

    Without an estimator candidates are built and timed on this machine. Raises PartitionError for an external compiler
    without a pattern table, or an operator that no target takes.
    """
    estimator = cost_estimator if cost_estimator is not None else CostEstimator()

    def partition(mod: IRModule, ctx: PassContext) -> IRModule:
        specs = gather_partition_specs(config)
        typed = infer_module(mod.shallow_copy())
        cache = CandidateFunctionCache(typed)
        result = typed.shallow_copy()
        for var, func in typed.functions.items():
            if is_optimizable(func):
                result[var] = Partitioner(specs, func, estimator, cache).partition()
        return infer_module(outline_compiler_functions(result, cache))

    return ModulePass(partition, PassInfo("CollagePartition", ends=REWRITES))


def CapturePostDfsIndexInSpans() -> FunctionPass:
    """The pass that puts ``index:<post-order index>:<index of the closest post-dominator>`` into every span."""

    def capture(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        graph = DataflowGraph(func)
        dominators = graph.post_dominators.parents()

        def numbered(before: RelayExpr, after: RelayExpr) -> RelayExpr:
            return _with_span(before, after, graph.index[before], dominators)

        return as_function(rewrite(func, numbered))

    return FunctionPass(capture, PassInfo("CapturePostDfsIndexInSpans", ends=REWRITES))


def _with_span(node: RelayExpr, after: RelayExpr, index: int, dominators: Sequence[int]) -> RelayExpr:
    if isinstance(node, (Op, GlobalVar)):
        return node  # one object for all its uses
    span = Span(INDEX_SOURCE, index, index, dominators[index], dominators[index])
    if isinstance(node, Var):
        copy: RelayExpr = Var(node.name_hint, node.type_annotation, span)
    elif not children(node):
        return node
    else:
        copy = after
        copy.span = span
    copy._checked_type = node._checked_type
    return copy


def PartitionForTesting(
    max_exits: int, allow_taps: bool, compiler: str, indexes: Sequence[int], labels: Sequence[str]
) -> FunctionPass:
    """The pass that makes a function of *compiler* of the nodes at *indexes*, where they are a valid sub-graph.

    Nodes of one label (unless it is empty) are a composite of that name within it. Raises UserError for an index that
    the function does not have. Source: the global function ``relay.collage.PartitionForTesting``.
    """
    config = SubGraphConfig(max_exits=int(max_exits), allow_taps=bool(allow_taps))
    if len(indexes) != len(labels):
        raise UserError(f"each index needs a label, got {len(indexes)} indexes and {len(labels)} labels")

    def partition(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        infer_expr(func, mod)
        graph = DataflowGraph(func)
        parts: dict[str, IndexSet] = {}
        for index, label in zip(indexes, labels, strict=True):
            if not 0 <= int(index) < len(graph):
                raise UserError(f"there is no node {index}: the function has nodes 0 to {len(graph) - 1}")
            parts[str(label)] = parts.get(str(label), 0) | 1 << int(index)
        composites = [
            NestedSubGraph(SubGraph(graph, inside), ((COMPOSITE, label),)) for label, inside in parts.items() if label
        ]
        sub_graph = SubGraph(graph, index_set(int(i) for i in indexes), composites)
        if not sub_graph.is_valid(config):
            return func
        return as_function(rewrite_sub_graphs(graph, [sub_graph.with_attrs({COMPILER: compiler})]))

    return FunctionPass(partition, PassInfo("PartitionForTesting", ends=REWRITES))


register_func("relay.collage.PartitionForTesting", PartitionForTesting)
