"""The law of regions: each is convex and no two wait for each other. Checked after every pass that makes regions."""

from __future__ import annotations

from byoc.errors import InternalError
from byoc.ir.span import span_names
from byoc.relay.analysis.regions.annotated_regions import AnnotatedRegion
from byoc.relay.analysis.regions.region_graph import RegionGraph
from byoc.relay.expr import Function


def check_regions(func: Function, pass_name: str) -> RegionGraph:
    """The contracted graph of *func*, in linear time.

    Raises InternalError naming *pass_name* and the regions when a region is not convex (a path leaves it and comes
    back) or when regions wait for each other.
    """
    graph = RegionGraph(func)
    _, cycle = graph.order()
    if not cycle:
        return graph
    regions = [region for unit in cycle if (region := graph.region[unit]) is not None]
    names = ", ".join(_describe(region) for region in regions) or "no region"
    problem = "is not convex" if len(regions) == 1 else "wait for each other"
    raise InternalError(f"{pass_name}: {names} {problem}: a path through {len(cycle)} units of the graph leads back")


def _describe(region: AnnotatedRegion) -> str:
    spans = dict.fromkeys(name for node in region.nodes for name in span_names(node.span))
    names = list(spans)[:4]
    nodes = f" ({', '.join(names)}{', …' if len(spans) > 4 else ''})" if names else ""
    return f"region {region.id} of {region.target}{nodes}"
