"""The graph that a profile is of, as it ran: regions and the host's groups, with what each took."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from byoc.partition.boundaries import HOST
from byoc.partition.show.draw import svg_of
from byoc.partition.show.picture import Box, Picture
from byoc.runtime.graph.graph import RESHAPE, Graph
from byoc.runtime.library import Library
from byoc.runtime.profile.record import FunctionRecord, ProfileRecord, names_of_functions


def executed_graph(library: Library, profile: ProfileRecord) -> str:
    """The SVG of the graph of *library*, with the medians of *profile*; views are drawn through."""
    return svg_of(picture_of_run(Graph(library.graph_json), library, profile), for_page=True)


def picture_of_run(graph: Graph, library: Library, profile: ProfileRecord) -> Picture:
    """Boxes of the inputs and of each call of a function, and what reads what."""
    records = {f.symbol: f for f in profile.functions}
    names = dict(zip(records, names_of_functions(list(records.values())), strict=True))
    boxes: list[Box] = []
    arrows: dict[tuple[int, int], None] = {}
    sources: dict[int, tuple[int, ...]] = {}  # by node: the boxes that its value comes from
    regions: list[str] = []
    inputs = {spec.name for spec in library.inputs}
    for number, node in enumerate(graph.nodes):
        above = tuple(dict.fromkeys(box for source, _ in node.inputs for box in sources.get(source, ())))
        if node.function == RESHAPE or (not node.function and node.name not in inputs):  # a view, a constant
            sources[number] = above
            continue
        record = records.get(node.function)
        region = -1
        if record is not None and record.is_region:
            region = len(regions)
            regions.append(record.backend)
        boxes.append(_box(node.name if record is None else _label(record, names), record, region))
        arrows |= dict.fromkeys((box, len(boxes) - 1) for box in above)
        sources[number] = (len(boxes) - 1,)
    targets = dict.fromkeys(f.backend for f in profile.functions if f.is_region)
    return Picture(tuple(boxes), tuple(arrows), (HOST, *targets), tuple(regions))


def _label(record: FunctionRecord, names: Mapping[str, str]) -> str:
    """What a box is called: the operators of the function, or its name in the tables where they are not known."""
    operators = dict.fromkeys(work.operator for work in record.operators)
    return ", ".join(operators) if operators else names[record.symbol]


def _box(label: str, record: FunctionRecord | None, region: int) -> Box:
    if record is None:
        return Box(label, "", HOST, region)
    took = record.seconds()
    calls = max(map(len, record.runs), default=0)
    note = f"{1e3 * statistics.median(took):.4g} ms" if took else ""
    note += f" for its {calls} calls" if note and calls > 1 else ""
    place = record.backend if record.is_region else HOST
    return Box(label, ", ".join(record.nodes), place, region, "\n".join(filter(None, [record.symbol, note])))
