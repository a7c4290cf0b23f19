"""The cut graph as a picture knows it: boxes with names and targets, arrows between them, and a layered layout.

A layer holds nodes that do not depend on one another; within a layer nodes stand near what they use (the barycentre
heuristic of Sugiyama, Tagawa and Toda, 1981). Deterministic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from byoc.contract.verdict import callee_name
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.span import span_names
from byoc.partition.boundaries import HOST
from byoc.partition.calls import Decision, calls_of, functions_of
from byoc.partition.content.cut import PlannedCut
from byoc.partition.content.explanation import seconds
from byoc.partition.cut.annotate import regions_of
from byoc.relay.analysis.regions.annotated_regions import open_children
from byoc.relay.expr import Call, Function, Var
from byoc.relay.traverse import post_order


@dataclass(frozen=True)
class Box:
    """A node of the picture: what it is, where it came from, its target, and the number of its region (-1 is none).

    *note* is what a reader may want to know besides: its cost, and why it is nowhere else.
    """

    label: str
    origin: str
    target: str
    region: int
    note: str = ""


@dataclass(frozen=True)
class Picture:
    """Boxes and arrows (from, to); ``regions`` are the targets by region number."""

    boxes: tuple[Box, ...]
    arrows: tuple[tuple[int, int], ...]
    targets: tuple[str, ...]
    regions: tuple[str, ...]


def picture_of(mod: IRModule, plan: PlannedCut) -> Picture:
    """The picture of *mod* as *plan* cuts it: inputs and calls are boxes; tuples and projections are drawn through.

    *mod* is the module that the plan was made for. Raises PartitionError for another.
    """
    prepared = plan.prepare(mod)
    annotated, numbers = plan.annotate_numbered(prepared)
    regions = regions_of(annotated)
    region_of = {numbers[k]: number for number, region in enumerate(regions) for k in region.numbers}
    boxes: list[Box] = []
    arrows: dict[tuple[int, int], None] = {}
    count = 0
    for _, func in functions_of(prepared):
        number = {call: count + k for k, call in enumerate(calls_of(func))}
        count += len(number)
        _draw_function(func, number, plan, region_of, boxes, arrows)
    return Picture(tuple(boxes), tuple(arrows), (HOST, *plan.targets), tuple(r.target for r in regions))


def _draw_function(
    func: Function,
    number: Mapping[Call, int],
    plan: PlannedCut,
    region_of: dict[int, int],
    boxes: list[Box],
    arrows: dict[tuple[int, int], None],
) -> None:
    """Add the boxes and arrows of one function. A node that is not drawn hands on what it was reached from."""
    sources: dict[RelayExpr, tuple[int, ...]] = {}
    for node in post_order(func, open_children):
        above = tuple(dict.fromkeys(b for child in open_children(node) for b in sources[child]))
        if isinstance(node, Call) and node in number:
            at = number[node]
            target = plan.decisions[at].target or HOST
            origin = ", ".join(span_names(node.span))
            note = _note(plan.decisions[at])
            boxes.append(Box(callee_name(node), origin, target, region_of.get(at, -1), note))
            arrows.update(((source, len(boxes) - 1), None) for source in above)
            sources[node] = (len(boxes) - 1,)
        elif isinstance(node, Var) and node in func.params:
            boxes.append(Box(f"%{node.name_hint}", str(node._checked_type or ""), HOST, -1))
            sources[node] = (len(boxes) - 1,)
        else:
            sources[node] = above


def _note(decision: Decision) -> str:
    lines = [f"estimate {seconds(decision.seconds)}"] if decision.seconds is not None else []
    lines += [f"not on {target}: {r}" for target, verdict in decision.verdicts for r in verdict.why]
    return "\n".join(lines)


@dataclass(frozen=True)
class PictureLayout:
    """Where each box stands: its layer and its place in the layer."""

    layer: tuple[int, ...]
    place: tuple[int, ...]
    widths: tuple[int, ...]


def layered(count: int, arrows: Sequence[tuple[int, int]], sweeps: int = 4) -> PictureLayout:
    """A layout of *count* boxes that are numbered so that every arrow goes to a higher number."""
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for source, sink in arrows:
        above[sink].append(source)
        below[source].append(sink)
    layer = [0] * count
    for box in range(count):
        layer[box] = 1 + max((layer[a] for a in above[box]), default=-1)
    for box in range(count - 1, -1, -1):  # inputs stand right above what uses them
        if not above[box] and below[box]:
            layer[box] = min(layer[b] for b in below[box]) - 1
    layers: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
    for box in range(count):
        layers[layer[box]].append(box)
    place = [0] * count
    _number(layers, place)
    for sweep in range(sweeps):
        near = above if sweep % 2 == 0 else below
        for row in layers if sweep % 2 == 0 else reversed(layers):
            row.sort(key=lambda box: (_barycentre(box, near[box], place), box))
            for k, box in enumerate(row):
                place[box] = k
    return PictureLayout(tuple(layer), tuple(place), tuple(map(len, layers)))


def _number(layers: Sequence[Sequence[int]], place: list[int]) -> None:
    for row in layers:
        for k, box in enumerate(row):
            place[box] = k


def _barycentre(box: int, near: Sequence[int], place: Sequence[int]) -> float:
    return sum(place[n] for n in near) / len(near) if near else float(place[box])
