"""The cut itself: annotate what was decided, merge regions, hold them to the limits of their backends.

Ensures: every region is within the limits of its target; what a limit drops goes to the host and the reason is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from byoc.codegen.backend import Limits, Reason
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.partition.calls import calls_of, functions_of, inner_calls, is_composite
from byoc.partition.measure import call_operations, constant_bytes
from byoc.relay.analysis.region_checks import check_regions
from byoc.relay.analysis.region_graph import open_children
from byoc.relay.expr import Call, Constant, Function
from byoc.relay.op.annotation import compiler_begin, compiler_end, is_begin, is_end, strip_annotations
from byoc.relay.transform.annotate_target import DEFAULT, annotate_function
from byoc.relay.transform.merge_compiler_regions import merge_regions
from byoc.relay.traverse import post_order
from byoc.relay.typed_rewrite import typed_rebuild

Targets = Sequence[str | None]


@dataclass(frozen=True)
class CutRegion:
    """A region before it is outlined: its target, the numbers of its calls, its operators, operations and constants."""

    target: str
    numbers: tuple[int, ...]
    operators: int
    operations: int
    constant_bytes: int


def annotate(mod: IRModule, targets: Targets, limits: Mapping[str, Limits]) -> IRModule:
    """*mod* annotated so that call number n goes to ``targets[n]``; regions merged, too long ones split."""
    result = mod.shallow_copy()
    numbers = iter(targets)
    for var, func in functions_of(mod):
        chosen: dict[Call, str | None] = {call: next(numbers) for call in calls_of(func)}
        result[var] = _split(merge_regions(annotate_function(func, chosen.get)), limits)
    return result


def _split(func: Function, limits: Mapping[str, Limits]) -> Function:
    """*func* with the regions that have too many operators cut into parts, each in the order of the graph."""
    bounds = {target: limit.max_operators for target, limit in limits.items() if limit.max_operators}
    if not bounds:
        return func
    graph = check_regions(func, "split")
    part: dict[RelayExpr, tuple[int, int]] = {}
    target: dict[RelayExpr, str] = {}
    for region in graph.regions:
        bound = bounds.get(region.target)
        if bound is not None:
            for node, place in _parts(region.id, graph.region_nodes(region), bound):
                part[node], target[node] = place, region.target
    memo: dict[RelayExpr, RelayExpr] = {}
    for node in graph.nodes:
        new = [
            _cross(memo[c], target[c]) if _is_cut(node, c, part) else memo[c] for c in open_children(node)
        ]
        memo[node] = typed_rebuild(node, new) if new else node
    return memo[func]  # type: ignore[return-value]


def _is_cut(node: RelayExpr, child: RelayExpr, part: Mapping[RelayExpr, tuple[int, int]]) -> bool:
    if node not in part or child not in part or is_begin(child) or is_end(node):
        return False
    return part[node][0] == part[child][0] and part[node][1] != part[child][1]


def _cross(value: RelayExpr, target: str) -> RelayExpr:
    return compiler_begin(compiler_end(value, target), target)


def _parts(region: int, nodes: Sequence[RelayExpr], bound: int) -> Iterator[tuple[RelayExpr, tuple[int, int]]]:
    """Each node of a region with its part: as many calls in post-order as hold at most *bound* operators."""
    part, size = 0, 0
    for node in nodes:
        if isinstance(node, Call) and not is_begin(node) and not is_end(node):
            weight = len(inner_calls(node))
            if size and size + weight > bound:
                part, size = part + 1, 0
            size += weight
        yield node, (region, part)


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
                    tuple(number[c] for c in calls),  # type: ignore[index]
                    sum(len(inner_calls(c)) for c in calls),  # type: ignore[arg-type]
                    sum(call_operations(inner) for c in calls for inner in inner_calls(c)),  # type: ignore[arg-type]
                    _constants(graph.region_nodes(region)),
                )
            )
    return found


def _constants(nodes: Sequence[RelayExpr]) -> int:
    """Bytes of the constants that enter through begins or stand inside."""
    inside = {n: None for node in nodes for n in [strip_annotations(node)] if isinstance(n, Constant)}
    for node in nodes:
        if isinstance(node, Call) and is_composite(node):
            inside.update((n, None) for n in post_order(node.op) if isinstance(n, Constant))
    return sum(constant_bytes(c) for c in inside)  # type: ignore[arg-type]


def refused_by_limits(regions: Sequence[CutRegion], limits: Mapping[str, Limits]) -> dict[int, Reason]:
    """The numbers of the calls whose region is beyond the limits of its target, each with the reason.

    Where there are too many regions, those with the most operations stay.
    """
    refused: dict[int, Reason] = {}
    kept: dict[str, list[CutRegion]] = {}
    for region in regions:
        limit = limits.get(region.target, Limits())
        reason = _beyond(region, limit)
        if reason is None:
            kept.setdefault(region.target, []).append(region)
        else:
            refused.update(dict.fromkeys(region.numbers, reason))
    for target, rest in kept.items():
        most = limits.get(target, Limits()).max_regions
        if most is not None and len(rest) > most:
            ranked = sorted(rest, key=lambda r: (-r.operations, -r.operators, r.numbers))
            reason = Reason("max_regions", f"at most {most} regions of {target}, by operations", str(len(rest)))
            for region in ranked[most:]:
                refused.update(dict.fromkeys(region.numbers, reason))
    return refused


def _beyond(region: CutRegion, limit: Limits) -> Reason | None:
    if region.operators < limit.min_operators:
        return Reason("min_operators", f"a region has at least {limit.min_operators} operators", str(region.operators))
    if limit.max_operators is not None and region.operators > limit.max_operators:
        return Reason("max_operators", f"a region has at most {limit.max_operators} operators", str(region.operators))
    if limit.max_bytes is not None and region.constant_bytes > limit.max_bytes:
        text = f"a region has at most {limit.max_bytes} bytes of constants"
        return Reason("max_bytes", text, str(region.constant_bytes))
    return None
