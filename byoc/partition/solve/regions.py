"""Joins the chosen candidates of one site to as few regions as are valid, and splits those beyond the limits."""

from __future__ import annotations

from collections.abc import Sequence

from byoc.errors import PartitionError
from byoc.partition.problem import HOME, Problem
from byoc.partition.solve.merge_units import merge_units
from byoc.partition.solve.region_bytes import RegionBytes
from byoc.partition.solve.runs import parts_of_runs
from byoc.partition.solve.split import split_region
from byoc.partition.solve.units import UnitGraph, topological_order, units_of

LARGE = 20_000  # units from which on they are joined run by run
Regions = tuple[tuple[int, ...], ...]


def form_regions(problem: Problem, chosen: Sequence[int]) -> Regions:
    """The regions of the candidates *chosen*, each the rising numbers of its candidates: few launches, and valid.

    Joining is tried from the inputs and from the results, and the cheaper outcome is taken. A region beyond its limits
    is split where the cut costs least. Raises PartitionError naming an operator and the limits where a region still
    breaks them, or a site has too many.
    """
    regions, broken = regions_and_broken(problem, chosen)
    if broken:
        region, why = broken[0]
        candidate = problem.candidates[region[0]]
        raise PartitionError(
            f"{problem.name_of(candidate.operators[0])} at {problem.sites[candidate.site].name} is in no region "
            f"within the limits: {why}"
        )
    return regions


def regions_and_broken(
    problem: Problem, chosen: Sequence[int], sizes: RegionBytes | None = None
) -> tuple[Regions, list[tuple[tuple[int, ...], str]]]:
    """The regions of *chosen* however they turn out, and those that break limits, with the reason in words."""
    sizes = sizes or RegionBytes(problem)
    units = units_of(problem, chosen)
    at = {u: k for k, u in enumerate(units.order)}
    regions = []
    for members in _merged(problem, units):
        whole = tuple(sorted(units.candidates[u] for u in members))
        bounds = problem.sites[units.site[members[0]]].bounds
        if (bounds.max_operators is not None or bounds.max_bytes is not None) and sizes.beyond(whole):
            parts = split_region(problem, sizes, units, sorted(members, key=at.__getitem__))
            regions += [tuple(sorted(units.candidates[u] for u in part)) for part in parts]
        else:
            regions.append(whole)
    regions.sort()
    return tuple(regions), _broken(problem, sizes, regions)


def _broken(
    problem: Problem, sizes: RegionBytes, regions: Sequence[tuple[int, ...]]
) -> list[tuple[tuple[int, ...], str]]:
    found = []
    count: dict[tuple[int, ...], int] = {}
    for region in regions:
        site = problem.candidates[region[0]].site
        sites, most = problem.region_limits.get(site, ((site,), None))
        count[sites] = count.get(sites, 0) + 1
        why = sizes.beyond(region)
        if why is None and most is not None and count[sites] > most:
            why = f"{most} regions at most"
        if why is not None:
            found.append((region, why))
    return found


def _merged(problem: Problem, units: UnitGraph) -> list[list[int]]:
    """Units joined to connected regions, none of which waits for another in a cycle."""
    if len(units.order) > LARGE:
        joined = [_merged_in_runs(units.site, p, c) for p, c in _both_orders(units)]
    else:
        backwards = topological_order(units.children, units.parents)
        joined = [
            merge_units(units.site, units.parents, units.order),
            merge_units(units.site, units.children, backwards),
        ]
    best: list[list[int]] = []
    least = None
    for stands_for in joined:
        groups: dict[int, list[int]] = {}
        for unit, top in enumerate(stands_for):
            if units.site[unit] != HOME:
                groups.setdefault(top, []).append(unit)
        cost = sum(_price(problem, units.site[top]) for top in groups), len(groups)
        if least is None or cost < least:
            best, least = list(groups.values()), cost
    return best


def _both_orders(units: UnitGraph) -> list[tuple[list[list[int]], list[list[int]]]]:
    return [(units.parents, units.children), (units.children, units.parents)]


def _merged_in_runs(
    site: Sequence[int], parents: Sequence[Sequence[int]], children: Sequence[Sequence[int]]
) -> list[int]:
    """What stands for each unit: parts of runs, joined where that is possible. For many units."""
    part, order = parts_of_runs(site, parents, children)
    number = {unit: k for k, unit in enumerate(order)}
    above: list[dict[int, None]] = [{} for _ in order]
    for unit, own in enumerate(part):
        above[number[own]].update((number[part[p]], None) for p in parents[unit] if part[p] != own)
    joined = merge_units([site[u] for u in order], [list(p) for p in above], range(len(order)))
    return [order[joined[number[own]]] for own in part]


def _price(problem: Problem, site: int) -> float:
    place = problem.sites[site]
    return place.launch + place.bounds.min_gain
