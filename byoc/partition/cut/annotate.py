"""The cut itself: annotate what was decided and merge neighbours, and the regions of what is annotated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.partition.calls import calls_among, calls_of, functions_of, inner_calls, is_composite
from byoc.partition.costs.work import call_operations, constant_bytes
from byoc.relay.analysis.regions.region_checks import check_regions
from byoc.relay.expr import Call, Constant
from byoc.relay.op.annotation import strip_annotations
from byoc.relay.transform.cut.annotate_target import DEFAULT, annotate_function
from byoc.relay.transform.cut.merge_compiler_regions import merge_regions
from byoc.relay.transform.cut.partition_graph import OutlinedFunction
from byoc.relay.traverse import post_order

Targets = Sequence[str | None]


@dataclass(frozen=True)
class CutRegion:
    """A region before it is outlined: its target, the numbers of its calls, its operators, operations and constants."""

    target: str
    numbers: tuple[int, ...]
    operators: int
    operations: int
    constant_bytes: int


def annotate(mod: IRModule, targets: Targets) -> IRModule:
    """*mod* annotated so that call number n goes to ``targets[n]``; regions merged."""
    result = mod.shallow_copy()
    numbers = iter(targets)
    for var, func in functions_of(mod):
        chosen: dict[Call, str | None] = {call: next(numbers) for call in calls_of(func)}
        result[var] = merge_regions(annotate_function(func, chosen.get))
    return result


def regions_of(mod: IRModule) -> list[CutRegion]:
    """The regions of an annotated module, in the order of their numbers."""
    found: list[CutRegion] = []
    count = 0
    for _, func in functions_of(mod):
        number = {call: count + k for k, call in enumerate(calls_of(func))}
        count += len(number)
        graph = check_regions(func, "limits")
        for region in graph.regions:
            calls = [n for n in graph.region_nodes(region) if n in number]
            if region.target == DEFAULT or not calls:
                continue
            found.append(
                CutRegion(
                    region.target,
                    tuple(number[c] for c in calls),
                    sum(len(inner_calls(c)) for c in calls),
                    sum(call_operations(inner) for c in calls for inner in inner_calls(c)),
                    _constants(graph.region_nodes(region)),
                )
            )
    return found


def outlined_calls(functions: Sequence[OutlinedFunction]) -> list[tuple[int, ...]]:
    """For each region that PartitionGraph outlined the numbers of its calls, in the order of outlining."""
    found: list[tuple[int, ...]] = []
    count = 0
    for outlined in functions:
        number = {call: count + k for k, call in enumerate(calls_among(outlined.nodes))}
        count += len(number)
        found += (tuple(number[n] for n in nodes if n in number) for nodes in outlined.regions)
    return found


def _constants(nodes: Sequence[RelayExpr]) -> int:
    """Bytes of the constants that enter through begins or stand inside."""
    inside = {n: None for node in nodes for n in [strip_annotations(node)] if isinstance(n, Constant)}
    for node in nodes:
        if isinstance(node, Call) and is_composite(node):
            inside.update((n, None) for n in post_order(node.op) if isinstance(n, Constant))
    return sum(constant_bytes(c) for c in inside)
